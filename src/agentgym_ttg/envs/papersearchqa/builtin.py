"""The built-in corpus and questions: made from the fact table when asked for, the same on every machine."""

from __future__ import annotations

import functools
import hashlib

from agentgym_ttg.core.errors import ConfigError, nearest
from agentgym_ttg.envs._search import MemoryCorpus

from .data import QuestionData
from .questions import write_questions
from .table import load_table
from .writer import LEVELS, write_abstracts

__all__ = ["builtin_data"]

#: Changes whenever the same level and seed give other texts.
VERSION = 1


@functools.lru_cache(maxsize=4)
def builtin_data(level: str = "easy", seed: int = 0) -> QuestionData:
    """Make the built-in data of a level; takes a fraction of a second to two seconds, and is then kept.

    Args:
        level: ``easy`` (three relations of drugs, terse notes), ``medium`` (drugs and genes) or ``hard`` (every
            relation, whole abstracts with asides about other subjects, aliases in the questions).
        seed: Another seed gives other wordings, splits and ids for the same facts.

    Raises:
        ConfigError: If there is no such level.

    >>> data = builtin_data()
    >>> len(data.corpus), len(data.questions["train"]) + len(data.questions["test"])
    (1908, 1154)
    """
    if level not in LEVELS:
        hint = nearest(level, LEVELS)
        raise ConfigError(
            f"unknown difficulty {level!r}; expected one of {', '.join(LEVELS)}"
            + (f" (did you mean {hint[0]!r}?)" if hint else "")
        )
    table = load_table()
    abstracts = write_abstracts(table, LEVELS[level], seed)
    suffix = f"{seed}/" if seed else ""
    questions = write_questions(table, abstracts, LEVELS[level], seed, f"builtin/{level}/{suffix}".rstrip("/"))
    corpus = MemoryCorpus(abstract.document for abstract in abstracts)
    name = f"built-in {level} v{VERSION}" + (f" (seed {seed})" if seed else "")
    return QuestionData(name, questions, corpus, {split: _hash(corpus, asked) for split, asked in questions.items()})


def _hash(corpus: MemoryCorpus, questions: tuple[object, ...]) -> str:
    digest = hashlib.blake2b(corpus.content_hash.encode(), digest_size=16)
    for question in questions:
        digest.update(f"{question.id}\0{question.question}\0{question.golden_answers}\0".encode())  # type: ignore[attr-defined]
    return digest.hexdigest()
