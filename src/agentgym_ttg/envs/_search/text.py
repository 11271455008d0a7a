"""From text to search terms: the same for documents and for queries."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

__all__ = ["ANALYSER_VERSION", "STOPWORDS", "query_terms", "terms"]

#: Changes whenever :func:`terms` changes, so that an index made by another version is not used.
ANALYSER_VERSION = 1

_WORD = re.compile(r"[^\W_]+")
_LONGEST = 64  # characters of a term; what is longer is no word
_MOST_QUERY_TERMS = 256

#: Words that carry the form of a question, not what it is about. They are indexed, but a query drops them.
STOPWORDS = frozenset(
    """
    a about after all also am an and any are as at be because been before being between both but by can could did do
    does doing due during each for from further had has have having he her here him his how i if in into is it its me
    might more most my no nor not of on once only or other our out over own same she should so some such than that the
    their them then there these they this those through to too under until up upon very was we were what when where
    which while who whom whose why will with would you your
    """.split()  # noqa: SIM905 - a paragraph can be read
)


def terms(text: str) -> list[str]:
    """Return the terms of a text: lower-case words without punctuation, plurals folded into the singular.

    >>> terms("ACE inhibitors, β-blockers and biopsies")
    ['ace', 'inhibitor', 'β', 'blocker', 'and', 'biopsy']
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return [_singular(word) for word in _WORD.findall(text.lower())]


def query_terms(query: str, known: Callable[[str], bool] = lambda term: True) -> list[str]:
    """Return the terms of a query that an index knows; stop words are dropped unless there is nothing else.

    >>> query_terms("Which vitamin is it?"), query_terms("who?")
    (['vitamin'], ['who'])
    """
    # A model may babble without end; only the beginning can be meant.
    found = terms(query[: _LONGEST * _MOST_QUERY_TERMS])[:_MOST_QUERY_TERMS]
    found = [term for term in found if known(term)]
    return [term for term in found if term not in STOPWORDS] or found


def _singular(word: str) -> str:
    if len(word) > _LONGEST:
        word = word[:_LONGEST]
    if len(word) < 4 or word[-1] != "s":
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word if word.endswith(("ss", "us", "is")) else word[:-1]
