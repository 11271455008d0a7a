"""The expert: it knows what has to be found, and searches until it has seen it."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym_ttg.envs._search.passages import content_spans

from .questions import Hop, Question

__all__ = ["next_move"]


def next_move(
    question: Question, seen: Sequence[tuple[frozenset[str], str]], queries: Sequence[str], searches_left: int
) -> tuple[str, str]:
    """Return what the expert does now.

    It looks for the hops in order, each until a shown gold document names what the hop asks for; so the query for the
    second hop uses a name that the first search has brought up, as a policy that imitates it can. Where all wordings of
    a query have failed or no search is left, it answers what it knows.

    Args:
        question: The question.
        seen: Names (id, source) and shown text of every passage so far.
        queries: Queries made so far.
        searches_left: How many more it may make.

    Returns:
        ``("search", query)`` or ``("answer", answer)``.
    """
    open_hop = next((hop for hop in question.hops if not shown_name(hop, seen)), None)
    if open_hop is not None and searches_left > 0:
        for query in _wordings(open_hop, question):
            if query not in queries:
                return "search", query
    last = question.hops[-1]
    return "answer", shown_name(last, seen) or question.answer


def shown_name(hop: Hop, seen: Sequence[tuple[frozenset[str], str]]) -> str:
    """Return the name of a hop's answer that a shown gold document uses, ``""`` if none was shown."""
    for names, text in seen:
        if names & hop.gold:
            lower = text.lower()
            for name in hop.names:
                if name.lower() in lower:
                    return name
    return ""


def _wordings(hop: Hop, question: Question) -> list[str]:
    """Return the queries for a hop, best first."""
    content = " ".join(content_spans(question.question))
    wordings = [hop.query] if hop.query != question.question else [content]
    # The last one is an oracle's: it gives away the answer, to find the document that says it.
    return [*wordings, content, f"{wordings[0]} {hop.answer}"]
