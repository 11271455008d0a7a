"""Convert a corpus of abstracts and questions about them into the layout that PaperSearchQA reads.

    python scripts/convert_papersearch.py SOURCE TARGET

SOURCE holds ``corpus.jsonl`` and ``questions.jsonl`` (or ``.gz``, ``.xz``), as derived from BC5CDR: documents with
``pmid`` and ``contents``; questions with ``question``, ``answer``, ``golden_answers``, ``is_paraphrased``, ``cat``,
``kind``, ``pmids`` and ``split`` (``train``, ``dev``). TARGET gets ``corpus.jsonl``, ``train.jsonl`` and ``test.jsonl``
(from ``dev``) in the published schema; a document's id is its PMID, so that the labels find it. Then:

    python -m agentgym_ttg.benchmarks.run --env PaperSearchQA --method expert --data-dir TARGET
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agentgym_ttg.core.errors import AgentGymError, DataError
from agentgym_ttg.envs._search.documents import iter_records

SPLITS = {"train": "train", "dev": "test", "test": "test"}
KEPT = ("id", "question", "answer", "golden_answers", "is_paraphrased", "cat", "kind", "pmids")


def main(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    documents = 0
    with (target / "corpus.jsonl").open("w", encoding="ascii", newline="\n") as file:
        for record in iter_records(find(source, "corpus")):
            file.write(json.dumps({"id": str(record["pmid"]), "contents": record["contents"]}) + "\n")
            documents += 1
    counts = dict.fromkeys(SPLITS.values(), 0)
    files = {split: (target / f"{split}.jsonl").open("w", encoding="ascii", newline="\n") for split in counts}
    for record in iter_records(find(source, "questions")):
        split = SPLITS[record["split"]]
        pmids = [str(pmid) for pmid in record["pmids"]]
        row = {**{key: record[key] for key in KEPT}, "pmids": pmids, "pmid": pmids[0] if pmids else None}
        files[split].write(json.dumps(row) + "\n")
        counts[split] += 1
    for file in files.values():
        file.close()
    print(f"{target}: {documents} documents, {counts}")


def find(folder: Path, stem: str) -> Path:
    for suffix in (".jsonl", ".jsonl.gz", ".jsonl.xz", ".parquet"):
        if (folder / (stem + suffix)).is_file():
            return folder / (stem + suffix)
    raise DataError(f"{folder} holds no {stem}.jsonl (or .gz, .xz, .parquet)")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except (AgentGymError, KeyError) as error:
        sys.exit(f"cannot convert: {error!r}")
