"""Speed benchmarks: candidates side by side in one run, ratios instead of absolute numbers.

Each module of this package whose name has no leading underscore is one benchmark: it defines ``BENCHMARK``, a
:class:`SpeedBenchmark`. To add one, add a file.
"""

from ._harness import Candidate, Measurement, Paired, measure
from ._registry import SpeedBenchmark, benchmarks

__all__ = ["Candidate", "Measurement", "Paired", "SpeedBenchmark", "benchmarks", "main", "measure"]


def main(args: list[str] | None = None, *, prog: str = "python -m agentgym_ttg.benchmarks.speed") -> int:
    """Run the command; return the exit status."""
    from .__main__ import main as command

    return command(args, prog=prog)
