"""``python -m agentgym_ttg.benchmarks.speed NAME``: run a speed benchmark."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from ..console import guarded, with_status
from ._harness import Paired
from ._registry import benchmark, benchmarks

__all__ = ["main"]

_RATIO = ("median", "least", "greatest")


def main(args: Sequence[str] | None = None, *, prog: str = "python -m agentgym_ttg.benchmarks.speed") -> int:
    """Run the command; return the exit status."""
    words = list(sys.argv[1:] if args is None else args)
    if not words or words[0] in ("-h", "--help"):
        lines = "\n".join(f"  {name:<10}{benchmark(name).summary}" for name in benchmarks())
        print(f"usage: {prog} NAME [--json] ...\n\n{lines}\n\n{prog} NAME --help tells its options.")
        return 0 if words else 2

    def command() -> int:
        chosen = benchmark(words[0])
        rest = [word for word in words[1:] if word != "--json"]
        options: Any = tyro.cli(chosen.options, args=rest, prog=f"{prog} {chosen.name}", description=chosen.summary)
        as_json = "--json" in words[1:]
        found = with_status(chosen.name, lambda say: chosen.run(options, say))
        if as_json:
            print(json.dumps({"benchmark": chosen.name, **_machine(), "results": list(map(_record, found))}, indent=2))
        else:
            _print(found)
        return 0

    return guarded(command)


def _machine() -> dict[str, Any]:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    out = {"python": platform.python_version(), "platform": platform.platform(), "cpus": os.cpu_count(), "load": load}
    if torch := sys.modules.get("torch"):
        out |= {"torch": str(torch.__version__), "torch_threads": torch.get_num_threads()}
    return out


def _record(one: Paired) -> dict[str, Any]:
    first = next(iter(one.candidates))
    rows = {}
    for label, times in one.candidates.items():
        rows[label] = {
            "seconds_per_unit": times.median,
            "units_per_second": times.rate,
            "repetitions": list(times.seconds),
            "cpu_repetitions": list(times.cpu_seconds),
            f"{first}_is_faster_by": dict(zip(_RATIO, one.ratio(label), strict=True)),
            f"{first}_is_faster_by_cpu": dict(zip(_RATIO, one.ratio(label, cpu=True), strict=True)),
        }
    return {
        "name": one.name,
        "unit": one.unit,
        "candidates": rows,
        "skipped": dict(one.skipped),
        "notes": list(one.notes),
        "values": dict(one.values),
    }


def _print(found: Sequence[Paired]) -> None:
    table = Table()
    for name in (
        "",
        "candidate",
        "seconds per unit",
        "units per second",
        "ratio [least, greatest]",
        "ratio of CPU time",
    ):
        table.add_column(name, justify="right" if name not in ("", "candidate") else "left")
    for one in found:
        first = next(iter(one.candidates))
        for label, times in one.candidates.items():
            median, low, high = one.ratio(label)
            table.add_row(
                f"{one.name} ({one.unit})" if label == first else "",
                label,
                _seconds(times.median),
                f"{times.rate:,.0f}" if times.rate >= 100 else f"{times.rate:.2f}",
                "" if label == first else f"{median:,.2f} x [{low:,.2f}, {high:,.2f}]",
                "" if label == first else f"{one.ratio(label, cpu=True)[0]:,.2f} x",
            )
        table.add_section()
    console = Console()
    console.print(table)
    machine = ", ".join(f"{name} {value}" for name, value in _machine().items() if value is not None)
    console.print(machine, highlight=False, markup=False, soft_wrap=True)
    for one in found:
        for label, reason in one.skipped.items():
            console.print(f"{one.name}: {label} skipped: {reason}", highlight=False, markup=False, soft_wrap=True)
        for note in one.notes:
            console.print(f"{one.name}: {note}", highlight=False, markup=False, soft_wrap=True)


def _seconds(value: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


if __name__ == "__main__":
    sys.exit(main())
