"""Train the shipped default tokenizer: a byte-level BPE over text that this project makes.

    python scripts/make_tokenizer.py [OUT]

Deterministic: the same source tree gives the same file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src/agentgym_ttg/core/assets/tokenizer.json"
VOCAB = 4096


def corpus() -> Iterator[str]:
    """Yield the project's own prose and code."""
    for pattern in ("*.md", "docs/**/*.md", "src/**/*.py"):
        for path in sorted(ROOT.glob(pattern)):
            yield path.read_text(encoding="utf-8")


def main(target: Path) -> None:
    """Train and write."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|end|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.save(str(target), pretty=False)
    print(f"{target}: {tokenizer.get_vocab_size()} tokens, {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
