"""When an answer is right."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable

__all__ = ["exact_match", "normalise"]

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")


def normalise(answer: str) -> str:
    """Lower-case, drop ASCII punctuation, drop the words a, an, the, squeeze spaces; in this order.

    >>> normalise(" The Dystrophin. "), normalise("Theatre of a Banana")
    ('dystrophin', 'theatre of banana')
    """
    return " ".join(_ARTICLE.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golden: Iterable[str]) -> bool:
    """Whether the answer is one of the golden ones, both normalised.

    >>> exact_match("paracetamol", ["acetaminophen", "Paracetamol"]), exact_match("not X", ["X"])
    (True, False)
    """
    given = normalise(answer)
    return any(given == normalise(gold) for gold in golden)
