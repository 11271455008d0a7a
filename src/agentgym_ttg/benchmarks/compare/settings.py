"""Which settings tell runs apart, and what runs are called by them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentgym_ttg.core.errors import ConfigError

from ..config import NOT_COMPARED
from ..setup import short_name

if TYPE_CHECKING:
    from .load import RunData

__all__ = ["changed_settings", "name_apart"]

#: What says which cell of a table a run belongs to, or changes no number of it. The path of a meter is one of these:
#: where that meter learned is told instead.
_NO_VARIANT = NOT_COMPARED | {"method", "env", "seed", "meter", "checkpoint_every", "device", "data_dir"}


def _settings(run: RunData) -> dict[str, Any]:
    found = {name: value for name, value in run.config.items() if name not in _NO_VARIANT}
    if run.meter_elsewhere and run.meter_source is not None:
        found["meter_from"] = run.meter_source
    return found


def changed_settings(run: RunData, base: RunData) -> dict[str, Any]:
    """Return the settings of ``run`` that are others in ``base``, without those that make no variant.

    A meter that learned on another environment, or on the same with other arguments, is the setting ``meter_from``.
    """
    mine, theirs = _settings(run), _settings(base)
    return {name: mine.get(name) for name in mine | theirs if mine.get(name) != theirs.get(name)}


def name_apart(runs: Sequence[RunData]) -> None:
    """Give runs of one method with other settings other labels: ``deltattg``, ``deltattg,rho=0.5``.

    The most frequent value of a setting is not named, so the label of most runs is their method.

    Args:
        runs: Whose labels are their methods.

    Raises:
        ConfigError: If two runs have the same environment, settings and seed.
    """
    groups: dict[tuple[str, str], list[RunData]] = {}
    for run in runs:
        groups.setdefault((run.env, run.method), []).append(run)
    for members in groups.values():
        settings = [_settings(run) for run in members]
        common = {name: _most_common([one.get(name) for one in settings]) for one in settings for name in one}
        seen: dict[tuple[str, int], RunData] = {}
        for run, mine in zip(members, settings, strict=True):
            others = {name: mine.get(name) for name in common if mine.get(name) != common[name]}
            run.label = ",".join([run.method, *(f"{name}={_word(name, value)}" for name, value in others.items())])
            twin = seen.setdefault((run.label, run.seed), run)
            if twin is not run:
                raise ConfigError(
                    f"{twin.path} and {run.path} are both {run.label} on {run.env} with seed {run.seed}; leave one out"
                )


def _most_common(values: Sequence[Any]) -> Any:
    keys = [json.dumps(value, sort_keys=True) for value in values]
    return values[keys.index(Counter(keys).most_common(1)[0][0])]


def _word(name: str, value: Any) -> str:
    if name == "meter_from":
        if not isinstance(value, Mapping):
            return "own"
        arguments = value.get("env_kwargs") or {}
        return " ".join([short_name(str(value.get("env"))), *(f"{k}={v}" for k, v in arguments.items())])
    return value if isinstance(value, str) else json.dumps(value)
