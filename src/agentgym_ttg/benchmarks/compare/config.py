"""The settings of a comparison: one YAML file or flags, and what a comparison folder stored.

Precedence, lowest first: field defaults, the folder's ``compare.json``, the ``--config`` file, flags. So
``compare --out FOLDER`` is enough to go on with one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from agentgym_ttg.core.errors import ConfigError

from ..config import RefusedError, Refusing, check_names, env_kwargs_spec, load_config_file, peek, told
from ..run_folder import read_json
from .load import COMPARISON_FILE

__all__ = ["CompareConfig", "available_cores", "parse_comparison", "stored_settings", "sweep_points"]


def available_cores() -> int:
    """Return how many CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _sweeps(value: Any) -> Any:
    """Turn the mapping of a YAML file, ``{rho: [0, 0.2]}``, into the words of the flag, ``rho=0,0.2``."""
    if isinstance(value, Mapping):
        return tuple(f"{name}={','.join(map(str, _listed(points)))}" for name, points in value.items())
    return value


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


_Nested = Annotated[dict[str, dict[str, Any]], tyro.conf.Fixed, tyro.conf.Suppress]


class CompareConfig(BaseModel):
    """Methods x environments x seeds, and what they have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    methods: tuple[str, ...] = ("grpo", "deltattg")
    """Methods to compare; `agentgym-ttg methods` lists them."""
    envs: tuple[str, ...] = ("agentgym_ttg/ALFWorld-v0",)
    """Environments; `agentgym-ttg envs` lists them."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds of the runs; every method gets the same, so that differences are paired."""
    preset: str | None = "cpu"
    """Values for a purpose, as of `agentgym-ttg run`: cpu, smoke, paper."""
    settings: Annotated[dict[str, Any], env_kwargs_spec, tyro.conf.arg(name="set")] = {}
    """Settings of all runs, as of `agentgym-ttg run` (in files: `set`), such as updates=30 max_steps=20."""
    variants: _Nested = {}
    """Only in files: further columns by name, `{name: {method: deltattg, rho: 0.5}}`."""
    env_settings: _Nested = {}
    """Only in files: settings of the runs on one environment, `{alfworld: {max_steps: 30}}`."""
    sweep: Annotated[tuple[str, ...], BeforeValidator(_sweeps)] = ()
    """Settings to vary, one at a time, such as rho=0,0.2,0.5,1 cap=1,5; each value is a variant of --sweep-methods."""
    sweep_methods: tuple[str, ...] = ("deltattg",)
    """Methods that --sweep varies."""
    reference: str = "grpo"
    """What the others are compared with: a method or variant."""
    seed: int = Field(0, ge=0)
    """Seed of what the runs share: warm start, recordings, meter."""

    out: Annotated[str | None, BeforeValidator(_text)] = None
    """Folder of the comparison; one that is there is gone on with."""
    cores: int = Field(default_factory=available_cores, ge=1)
    """CPU cores to use in all."""
    threads_per_job: int = Field(1, ge=1)
    """CPU threads of each run; `cores / threads_per_job` runs go on at once."""
    retries: int = Field(1, ge=0)
    """How often a run that failed is started again (it goes on where it stopped)."""
    dry_run: bool = False
    """List the runs and what is there of them, and start nothing."""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print the results as JSON on standard output, and nothing else there."""
    config: Annotated[str | None, BeforeValidator(_text)] = None
    """YAML file with any of these fields; flags override it."""


#: Names that files and flags use where the field has another.
_RENAMED = {"settings": "set", "as_json": "json"}
#: What concerns one invocation only, and is not stored.
_NOT_STORED = ("out", "cores", "threads_per_job", "retries", "dry_run", "as_json", "config")


class _Flags(Refusing, CompareConfig):
    pass


def stored_settings(config: CompareConfig) -> dict[str, Any]:
    """Return what ``compare.json`` keeps of the settings, under the names of files."""
    values = config.model_dump(mode="json", exclude=set(_NOT_STORED))
    return {_RENAMED.get(name, name): value for name, value in values.items()}


def parse_comparison(args: Sequence[str], *, prog: str, description: str) -> CompareConfig:
    """Return the settings of a command line.

    Raises:
        ConfigError: If a setting cannot be, or there is no folder.
    """
    ahead = peek(args, "config", "out")
    file = ahead.get("config")
    values: dict[str, Any] = {}
    given = load_config_file(file) if file else {}
    out = ahead.get("out") or given.get("out")
    plan = Path(str(out)).expanduser() / COMPARISON_FILE if out else None
    if plan is not None and plan.is_file():
        values |= read_json(plan)["settings"]
    values |= given
    base = _build(values, f"config file {file}" if file else str(plan))
    try:
        found = tyro.cli(
            _Flags,
            default=_Flags.model_construct(**dict(base)),
            args=list(args),
            prog=prog,
            description=description,
            config=(tyro.conf.OmitArgPrefixes,),
        )
    except RefusedError as error:
        raise ConfigError(f"flags: {error}") from error
    if found.out is None:
        raise ConfigError("expected the folder of the comparison; name it with --out")
    return CompareConfig(**dict(found))


def _build(values: Mapping[str, Any], where: str) -> CompareConfig:
    back = {new: old for old, new in _RENAMED.items()}
    known = [_RENAMED.get(name, name) for name in CompareConfig.model_fields]
    check_names(values, known, where, " Settings of the runs stand under 'set'")
    try:
        return CompareConfig(**{back.get(name, name): value for name, value in values.items()})
    except ValidationError as error:
        raise ConfigError(f"{where}: {told(error)}") from error


def sweep_points(words: Sequence[str]) -> list[tuple[str, list[Any]]]:
    """Return name and values of each ``NAME=VALUE,VALUE…``; the values are YAML.

    Raises:
        ConfigError: If a word is of another form.

    >>> sweep_points(["rho=0,0.5", "meter_kind=head"])
    [('rho', [0, 0.5]), ('meter_kind', ['head'])]
    """
    out = []
    for word in words:
        name, equals, points = word.partition("=")
        if not (name and equals and points):
            raise ConfigError(f"--sweep: expected NAME=VALUE,VALUE, got {word!r}")
        out.append((name.replace("-", "_"), [yaml.safe_load(point) for point in points.split(",")]))
    return out
