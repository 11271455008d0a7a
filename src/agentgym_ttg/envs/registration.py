"""The ids that ``import agentgym_ttg`` registers with Gymnasium."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import gymnasium as gym

from agentgym_ttg.core.errors import ConfigError, nearest

__all__ = ["ENVIRONMENTS", "EnvInfo", "register_environments", "resolve_env_id"]


@dataclass(frozen=True, slots=True)
class EnvInfo:
    """One registered environment.

    Attributes:
        id: Gymnasium id.
        entry_point: ``module:class``; a string, so that ``spec.to_json()`` works and nothing is imported early.
        summary: One line for lists.
        splits: Names of its splits.
        default_eval_split: The split that evaluation uses unless told otherwise.
    """

    id: str
    entry_point: str
    summary: str
    splits: tuple[str, ...]
    default_eval_split: str


ENVIRONMENTS: dict[str, EnvInfo] = {
    info.id: info
    for info in (
        EnvInfo(
            "agentgym_ttg/ALFWorld-v0",
            "agentgym_ttg.envs.alfworld.env:ALFWorldEnv",
            "household tasks in text; built-in games, or the official ones by data_dir / ALFWORLD_DATA",
            ("train", "valid_seen", "valid_unseen"),
            "valid_seen",
        ),
        EnvInfo(
            "agentgym_ttg/PaperSearchQA-v0",
            "agentgym_ttg.envs.papersearchqa.env:PaperSearchQAEnv",
            "questions answered by searching biomedical abstracts; built-in, or published data by data_dir",
            ("train", "test"),
            "test",
        ),
        EnvInfo(
            "agentgym_ttg/BrowseCompPlus-v0",
            "agentgym_ttg.envs.browsecompplus.env:BrowseCompPlusEnv",
            "questions that join several constraints, over a fixed corpus; built-in, or published data by data_dir",
            ("test",),
            "test",
        ),
        EnvInfo(
            "agentgym_ttg/AgentWorldModel-v0",
            "agentgym_ttg.envs.agentworldmodel.env:AgentWorldModelEnv",
            "tasks in small worlds behind tools, checked by code; built-in, or published worlds by data_dir",
            ("train", "test"),
            "test",
        ),
        EnvInfo(
            "agentgym_ttg/BFCL-v0",
            "agentgym_ttg.envs.bfcl.env:BFCLEnv",
            "function calling, single- and multi-turn (evaluation; `agentgym-ttg data install bfcl`)",
            ("test",),
            "test",
        ),
    )
}


def register_environments() -> None:
    """Register every environment of ours; calling it again changes nothing."""
    for info in ENVIRONMENTS.values():
        if info.id not in gym.registry:
            gym.register(
                info.id,
                entry_point=info.entry_point,
                vector_entry_point=f"agentgym_ttg.envs.vector_entry:{info.id.rsplit('/', 1)[-1]}",
                # MultiTurnEnv enforces the order itself; Gymnasium's two wrappers do not know an episode that begins
                # by restore() instead of reset().
                order_enforce=False,
                disable_env_checker=True,
            )


def resolve_env_id(name: str) -> str:
    """Return the registered id for a name, with or without namespace and version, in any case.

    ``module:id`` imports the module that registers the id first, as ``gym.make`` does.

    Raises:
        ConfigError: If nothing is registered under it; names the nearest.

    >>> resolve_env_id("alfworld")
    'agentgym_ttg/ALFWorld-v0'
    """
    module, colon, rest = name.partition(":")
    if colon:  # Gymnasium's form for environments that another package registers
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ConfigError(f"cannot import {module!r}, the module before the colon of {name!r}: {error}") from error
        return resolve_env_id(rest)
    if name in gym.registry:
        return name
    short = {env_id.split("/")[-1].rsplit("-v", 1)[0].lower(): env_id for env_id in ENVIRONMENTS}
    key = name.lower().split("/")[-1].rsplit("-v", 1)[0]
    if key in short and name.lower() in (short[key].lower(), short[key].split("/")[-1].lower(), key):
        return short[key]
    hint = nearest(name, list(ENVIRONMENTS)) or ([short[near[0]]] if (near := nearest(key, short)) else [])
    raise ConfigError(
        f"unknown environment {name!r}"
        + (f"; did you mean {hint[0]!r}?" if hint else ".")
        + f" Registered here: {', '.join(ENVIRONMENTS)}"
    )
