"""Comparing methods on environments over seeds."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(args: Sequence[str] | None = None, *, prog: str = "python -m agentgym_ttg.benchmarks.compare") -> int:
    """Run the command; return the exit status."""
    from .command import main as command  # what reads comparisons needs none of it

    return command(args, prog=prog)
