"""Showing documents within a budget of tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentgym_ttg.core.tokenizers import Tokenizer

from .documents import Document
from .text import STOPWORDS

__all__ = ["clip", "content_spans", "share_budget", "show"]

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]+")
_MARK = re.compile(r"<(?=/?(?:think|search|information|answer|tool_call)\b)", re.IGNORECASE)
_SPAN_WORD = re.compile(r"[^\W_](?:[\w'’+/:;()-]*[^\W_)])?\)?|[.,;:!?]")
_ASKING = frozenset(
    ["belong", "belongs", "called", "find", "found", "give", "given", "known", "made", "name", "named", "used"]
)
_FIRST_CUT = 12  # characters for each token kept before the tokenizer looks at a text


def clip(text: str, tokens: int, tokenizer: Tokenizer) -> str:
    """Return the beginning of a text, at most ``tokens`` long.

    >>> from agentgym_ttg.core.tokenizers import load_tokenizer
    >>> clip("one two three", 100, load_tokenizer())
    'one two three'
    """
    if tokens < 1:
        return ""
    text = text[: tokens * _FIRST_CUT + 64] if len(text) > tokens * _FIRST_CUT + 64 else text
    ids = tokenizer.encode(text)
    while len(ids) > tokens:
        # Cutting ids can cut a character in two, and what is left may be counted otherwise: look again.
        text = tokenizer.decode(ids[:tokens]).rstrip("�")
        ids, previous = tokenizer.encode(text), ids
        if len(ids) >= len(previous):
            tokens -= 1
    return text


def share_budget(lengths: Sequence[int], budget: int) -> list[int]:
    """Share a budget: nobody gets more than asked for, and what the short ones leave goes to the long ones.

    >>> share_budget([10, 300, 300], 400)
    [10, 195, 195]
    """
    shares = [0] * len(lengths)
    left = budget
    for place, index in enumerate(sorted(range(len(lengths)), key=lengths.__getitem__)):
        shares[index] = min(lengths[index], left // (len(lengths) - place))
        left -= shares[index]
    return shares


def show(documents: Sequence[Document], budget: int, tokenizer: Tokenizer, *, each: int | None = None) -> list[str]:
    """Return a line for each document, all together within ``budget`` tokens (line ends included).

    Control characters become spaces, and marks that steer the conversation lose their bracket, so a document cannot
    end its own quotation.

    Args:
        documents: In the order to be shown.
        budget: Tokens of all lines.
        tokenizer: Counts.
        each: Tokens of one line at most.
    """
    lines = []
    for place, document in enumerate(documents, 1):
        title = f"{document.title.rstrip('. ')}. " if document.title.strip() else ""
        lines.append(f"Doc {place}: {title}{document.text}"[: budget * _FIRST_CUT + 64])
    lines = [_MARK.sub("‹", _CONTROL.sub(" ", line).replace("\n", " ")) for line in lines]
    counts = [len(tokenizer.encode(line)) for line in lines]
    wanted = [min(count, each) if each is not None else count for count in counts]
    shares = share_budget(wanted, max(budget - len(lines), 0))
    return [clip(line, share, tokenizer) for line, share in zip(lines, shares, strict=True)]


def content_spans(text: str, most: int = 12) -> list[str]:
    """Return the runs of words between stop words and punctuation, in order, each once.

    >>> content_spans("Which drug class does metformin belong to?")
    ['drug class', 'metformin']
    """
    spans: dict[str, None] = {}
    run: list[str] = []
    for word in [*_SPAN_WORD.findall(text), "."]:
        if word.lower() in STOPWORDS | _ASKING or word in ".,;:!?":
            if run:
                spans[" ".join(run)] = None
            run = []
        else:
            run.append(word)
        if len(spans) >= most:
            break
    return list(spans)
