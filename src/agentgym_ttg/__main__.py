"""The console script ``agentgym-ttg``: one word for each command."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Sequence

from agentgym_ttg.core.errors import nearest

__all__ = ["main"]

#: Command, the module whose ``main(args, prog=...)`` runs it, and what it does.
_COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("agentgym_ttg.benchmarks.run", "play or train a method on an environment"),
    "compare": ("agentgym_ttg.benchmarks.compare", "methods x environments x seeds"),
    "collect": ("agentgym_ttg.benchmarks.collect", "record trajectories of several policies"),
    "meter": ("agentgym_ttg.meter.cli", "train, evaluate and ask progress meters"),
    "steps": ("agentgym_ttg.benchmarks.steps", "judge step scorers"),
    "report": ("agentgym_ttg.benchmarks.report", "an HTML report of a run, or of several beside each other"),
    "speed": ("agentgym_ttg.benchmarks.speed", "speed benchmarks, side by side in one run"),
    "data": ("agentgym_ttg.data.__main__", "which data there are, where, and what is missing"),
}


def _there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def main(args: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    words = list(sys.argv[1:] if args is None else args)
    known = {name: entry for name, entry in _COMMANDS.items() if _there(entry[0])}
    own = {"envs": _envs, "methods": _methods}
    if not words or words[0] in ("-h", "--help"):
        print(_help(known))
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        from agentgym_ttg import __version__

        print(f"agentgym-ttg {__version__}")
        return 0
    name, rest = words[0], words[1:]
    if name in own:
        return own[name](rest)
    if name not in known:
        hint = nearest(name, [*known, *own])
        print(
            f"error: unknown command {name!r}" + (f"; did you mean {hint[0]!r}?" if hint else "; see --help"),
            file=sys.stderr,
        )
        return 2
    command = importlib.import_module(known[name][0]).main
    return int(command(rest, prog=f"agentgym-ttg {name}"))


def _help(known: dict[str, tuple[str, str]]) -> str:
    rows = [(name, what) for name, (_, what) in known.items()]
    rows += [("envs", "the environments"), ("methods", "the methods")]
    lines = "\n".join(f"  {name:<10}{what}" for name, what in rows)
    return f"usage: agentgym-ttg COMMAND ...\n\n{lines}\n\nagentgym-ttg COMMAND --help tells the options of a command."


def _envs(args: Sequence[str]) -> int:
    from agentgym_ttg.envs import ENVIRONMENTS

    rows: list[dict[str, object]] = [
        {
            "id": info.id,
            "summary": info.summary,
            "splits": list(info.splits),
            "evaluation split": info.default_eval_split,
        }
        for info in ENVIRONMENTS.values()
    ]
    return _list(rows, args, "envs")


def _methods(args: Sequence[str]) -> int:
    from agentgym_ttg.agents.methods import METHODS
    from agentgym_ttg.core.errors import ConfigError

    rows: list[dict[str, object]] = []
    for name in METHODS:
        try:
            method = METHODS[name]
            row = {"name": name, "kind": method.kind, "summary": method.summary, "source": method.source}
        except ConfigError as error:  # another package's method that cannot be imported
            row = {"name": name, "kind": "broken", "summary": str(error), "source": ""}
        rows.append(dict(row))
    return _list(rows, args, "methods")


def _list(rows: Sequence[dict[str, object]], args: Sequence[str], name: str) -> int:
    """Print rows as a table, or as JSON."""
    if list(args) == ["--json"]:
        print(json.dumps(rows, indent=2))
        return 0
    if args:
        print(f"usage: agentgym-ttg {name} [--json]", file=sys.stdout if args[0] in ("-h", "--help") else sys.stderr)
        return 0 if args[0] in ("-h", "--help") else 2
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for column in rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(", ".join(map(str, v)) if isinstance(v, list) else str(v) for v in row.values()))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
