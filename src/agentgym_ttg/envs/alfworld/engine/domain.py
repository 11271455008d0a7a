"""Which variant of the official domain a game file was made for.

A ``game.tw-pddl`` file carries the PDDL domain and the text grammar that the official engine interprets. This package
does not interpret them: it knows the official domain (``alfred.pddl``, ``alfred.twl2`` of ALFWorld 0.3 to 0.5) and
recognises which of its variants a file holds. Every action is compared by a fingerprint of its text, comments and
spacing aside, so a file whose rules differ is refused and never played by slightly wrong rules.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from agentgym_ttg.core.errors import DataError

from .sexpr import Node, flatten, read_sexpr

__all__ = ["Syntax", "Variant", "action_fingerprints", "goal_sentence_of", "recognise"]

Syntax = Literal["move", "put"]

_OTHER_ENGINE = 'Play it with engine="textworld", which interprets the rules in the file.'


@dataclass(frozen=True, slots=True)
class Variant:
    """A variant of the official domain and its text.

    Attributes:
        sink_cleans: whether a receptacle of SinkType cleans too (data release 2.1.2), or only a SinkBasinType (2.1.3).
        syntax: ``move X to Y`` (ALFWorld 0.4.0 and later) or ``put X in/on Y`` (before).
        has_help: whether the command ``help`` exists (since 0.4.0).
    """

    sink_cleans: bool = False
    syntax: Syntax = "move"
    has_help: bool = True


# sha256 of each action of the official domain as `action_fingerprints` normalises it, first 16 hex digits.
_CLEAN_AT_SINK = "7908c09e9c2410ad"
_ACTIONS: dict[str, frozenset[str]] = {
    "look": frozenset({"af35305d0073105f"}),
    "inventory": frozenset({"707bf5a9f559863f"}),
    "examinereceptacle": frozenset({"b3bf49299bab5205"}),
    "examineobject": frozenset({"30dc940e6061553d"}),
    "gotolocation": frozenset({"1a17e26de38fab24"}),
    "openobject": frozenset({"21956169b15d8546"}),
    "closeobject": frozenset({"11ebd46815bc0c79"}),
    "pickupobject": frozenset({"67566d33029bd651"}),
    "putobject": frozenset({"6ebc84b6bfd5a339"}),
    "cleanobject": frozenset({"60439a4fefecb24d", _CLEAN_AT_SINK}),
    "heatobject": frozenset({"913128a2295ae62c"}),
    "coolobject": frozenset({"e5584ea482950e09"}),
    "toggleobject": frozenset({"add36a6e826ee01c"}),
    "sliceobject": frozenset({"d10bfbed9ccc451d"}),
    "help": frozenset({"805c8dba41981b5e"}),
}
_OPTIONAL = frozenset({"help"})


def action_fingerprints(domain_text: str) -> dict[str, str]:
    """Return a fingerprint for each action of a PDDL domain.

    Comments, spacing and letter case do not count.

    >>> a = action_fingerprints("(define (domain d) (:action Look :parameters (?a)))")
    >>> b = action_fingerprints("(define (domain d)  (:ACTION look  :parameters ( ?a )))")
    >>> a == b and list(a) == ["look"]
    True
    """
    prints: dict[str, str] = {}
    for part in read_sexpr(domain_text, "the PDDL domain")[1:]:
        if isinstance(part, list) and part[:1] == [":action"]:
            name: Node = part[1] if len(part) > 1 else ""
            prints[str(name)] = hashlib.sha256(flatten(part).encode()).hexdigest()[:16]
    return prints


@lru_cache(maxsize=16)
def _sink_cleans(domain_text: str) -> bool:
    """Check the domain's actions; return whether a sink cleans, raise where an action is not the official one."""
    prints = action_fingerprints(domain_text)
    missing = sorted(set(_ACTIONS) - set(prints) - _OPTIONAL)
    if missing:
        raise DataError(f"the game's PDDL domain lacks the ALFWorld actions {', '.join(missing)}. {_OTHER_ENGINE}")
    for name, found in prints.items():
        if name not in _ACTIONS:
            raise DataError(
                f"the game's PDDL domain has an action {name[:80]!r} that the ALFWorld domain does not have. "
                + _OTHER_ENGINE
            )
        if found not in _ACTIONS[name]:
            raise DataError(
                f"the game's PDDL domain defines the action {name!r} in another way than ALFWorld does "
                f"(fingerprint {found}, known {', '.join(sorted(_ACTIONS[name]))}). {_OTHER_ENGINE}"
            )
    return prints["cleanobject"] == _CLEAN_AT_SINK


def recognise(domain_text: str, grammar_text: str) -> Variant:
    """Tell which variant of the official domain a game file holds.

    Args:
        domain_text: the ``pddl_domain`` of the file; empty means the domain of the installed release.
        grammar_text: the ``grammar`` of the file; empty likewise.

    Returns:
        The variant.

    Raises:
        DataError: if the rules or commands are none that this engine plays.
    """
    sink_cleans = _sink_cleans(domain_text) if domain_text.strip() else False
    if not grammar_text.strip():
        return Variant(sink_cleans=sink_cleans)
    has_move, has_put = "move {o} to {r}" in grammar_text, "put {o} in/on {r}" in grammar_text
    if has_move == has_put:
        found = "both" if has_move else "neither"
        raise DataError(
            "expected a grammar with the command 'move {o} to {r}' (ALFWorld 0.4.0 and later) or "
            f"'put {{o}} in/on {{r}}' (before), found {found}. {_OTHER_ENGINE}"
        )
    has_help = re.search(r"\baction\s+help\b", grammar_text) is not None
    return Variant(sink_cleans=sink_cleans, syntax="move" if has_move else "put", has_help=has_help)


_TASK = re.compile(r'"rhs"\s*:\s*"Your task is to: ((?:[^"\\]|\\.)*)"')


def goal_sentence_of(grammar_text: str) -> str | None:
    """Return the goal sentence, with its final stop, that a grammar holds; None where it holds none.

    >>> goal_sentence_of('"task": [{"rhs": "Your task is to: put a mug in desk."}]')
    'put a mug in desk.'
    """
    match = _TASK.search(grammar_text)
    if match is None:
        return None
    try:
        return str(json.loads(f'"{match.group(1)}"'))
    except ValueError:
        return None
