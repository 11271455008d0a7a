"""``python -m agentgym_ttg.data``: which data there are, where they lie, what is missing and how to bring it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from agentgym_ttg.core.errors import ConfigError, DataError, nearest

from .bfcl_install import install_bfcl
from .registry import DATA_SOURCES
from .status import Status, check

__all__ = ["main"]


@dataclass
class _Options:
    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Which sources; default all."""
    data_dir: str | None = None
    """Folder to look in for data that are not built in; default what their environment variables name."""
    check: bool = False
    """Read all of it and show the content hashes that results are labelled with."""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print JSON."""


def main(args: Sequence[str] | None = None, *, prog: str = "python -m agentgym_ttg.data") -> int:
    """Run the command; return 0, 1 if data that were asked for by name or folder are not whole, 2 for a wrong name."""
    given = sys.argv[1:] if args is None else list(args)
    if given[:1] == ["install"]:
        return _install(given[1:], prog=f"{prog} install")
    options = tyro.cli(
        _Options,
        prog=prog,
        description="Which data there are, where they lie, what is missing and how to bring it.",
        args=None if args is None else list(args),
    )
    try:
        found = [check(DATA_SOURCES[name], options.data_dir, hashes=options.check) for name in _names(options.names)]
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.as_json:
        print(json.dumps([one.to_dict() for one in found], indent=2))
    else:
        _print(found, hashes=options.check)
    asked = bool(options.names) or options.data_dir is not None
    return int(asked and any(one.state in ("missing", "broken") for one in found))


@dataclass
class _InstallOptions:
    name: tyro.conf.Positional[str]
    """What to install: bfcl."""
    version: str = "v3"
    """Version of the benchmark: v3 or v4."""
    wheel: str | None = None
    """The package's wheel, where it was fetched by other means."""


def _install(args: Sequence[str], *, prog: str) -> int:
    options = tyro.cli(_InstallOptions, prog=prog, description="Bring data into the cache folder.", args=list(args))
    try:
        if options.name != "bfcl":
            raise ConfigError(f"cannot install {options.name!r}; expected bfcl")
        print(f"BFCL {options.version} is in {install_bfcl(options.version, wheel=options.wheel)}")
    except (ConfigError, DataError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _names(given: Sequence[str]) -> list[str]:
    for name in given:
        if name not in DATA_SOURCES:
            hint = nearest(name, DATA_SOURCES)
            raise ConfigError(
                f"unknown data source {name!r}"
                + (f"; did you mean {hint[0]!r}?" if hint else ".")
                + f" There are {', '.join(DATA_SOURCES)}."
            )
    return list(given or DATA_SOURCES)


def _print(found: Sequence[Status], *, hashes: bool) -> None:
    table = Table()
    columns = ("data", "state", "splits", *(("content hash",) if hashes else ()), "what")
    for name in columns:
        table.add_column(name)
    for one in found:
        splits = "\n".join(f"{name} {split.tasks:,}" for name, split in one.splits.items())
        digests = "\n".join(split.content_hash for split in one.splits.values())
        table.add_row(one.name, one.state, splits, *((digests,) if hashes else ()), f"{one.summary}\n{one.licence}")
    console = Console()
    console.print(table)
    for one in found:
        place = f" ({one.folder})" if one.folder else ""
        if one.problem:
            console.print(f"{one.name}{place}: {one.problem}", highlight=False, markup=False, soft_wrap=True)
        elif one.folder:
            console.print(f"{one.name}: {one.folder}", highlight=False, markup=False, soft_wrap=True)
        if one.problem and one.bring:
            console.print(f"  bring it with: {one.bring}", highlight=False, markup=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
