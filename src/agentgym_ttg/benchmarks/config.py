"""The settings of a run: one model for flags, for YAML files and for the ``config.json`` of a run folder.

Precedence, lowest first: field defaults, the preset, the ``--config`` file, flags. With ``--resume`` the folder's own
``config.json`` takes the place of the defaults, so ``--resume --out FOLDER`` is enough to go on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from agentgym_ttg.agents.config import TrainConfig, preset_values
from agentgym_ttg.core.errors import ConfigError, nearest
from agentgym_ttg.core.yaml_files import read_mapping

__all__ = ["RunConfig", "differences", "flat", "load_config_file", "run_config"]


def _key_values(words: list[str]) -> dict[str, Any]:
    """Read ``key=value`` words; the value is YAML, so ``3`` is a number and ``true`` a truth value."""
    out: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise ValueError(f"expected KEY=VALUE, got {word!r}")
        out[key] = yaml.safe_load(value)
    return out


env_kwargs_spec = tyro.constructors.PrimitiveConstructorSpec(
    nargs="*",
    metavar="[KEY=VALUE ...]",
    instance_from_str=_key_values,
    is_instance=lambda value: isinstance(value, dict),
    str_from_instance=lambda value: [f"{key}={item}" for key, item in value.items()],
)


def _text_path(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


_PathText = Annotated[str, BeforeValidator(_text_path)]


class RunConfig(BaseModel):
    """What to run, on what, and where to keep it. Training settings lie beside these, in ``train``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str = "expert"
    """What acts or learns; `agentgym-ttg methods` lists them."""
    env: str = "agentgym_ttg/ALFWorld-v0"
    """Environment: a registered id, its short name (alfworld), or module:id; `agentgym-ttg envs` lists ours."""
    split: str | None = None
    """Tasks to play; default the environment's evaluation split, and `train` for methods that train."""
    episodes: int | None = Field(None, ge=1)
    """Episodes to play; default each task of an evaluation split once, 100 of a training split."""
    seed: int = Field(0, ge=0)
    """Seeds the order of training tasks, the environments and the policy."""

    model: str | None = None
    """Language model: a folder, a hub id, or its name at the server of --base-url."""
    base_url: str | None = None
    """Address of an OpenAI-compatible server, such as http://localhost:8000/v1."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable that holds the server's key."""
    temperature: float = Field(1.0, ge=0)
    """Sampling temperature; 0 is greedy."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Nucleus mass of sampling."""
    max_response_tokens: int = Field(512, ge=1)
    """Token limit of one message."""
    noise: float = Field(0.3, ge=0, le=1)
    """Probability of a random step, for noisy-expert."""

    data_dir: _PathText | None = None
    """Folder of the real data set; default what is built in."""
    max_steps: int | None = Field(None, ge=1)
    """Decisions after which an episode is truncated; default the environment's."""
    max_tokens: int | None = Field(None, ge=1)
    """Assistant tokens after which an episode is truncated; default no limit."""
    action_format: str | None = None
    """How a message carries an action (plain, tags, tools); default what method and environment prefer."""
    env_kwargs: Annotated[dict[str, Any], env_kwargs_spec] = {}
    """Further arguments of the environment, such as difficulty=hard engine=textworld."""

    prompt: Literal["conversation", "windowed"] = "conversation"
    """Whole conversation, or a window of the last turns."""
    history_length: int = Field(2, ge=0)
    """Turns in the window."""
    template: _PathText | None = None
    """Prompt template: a YAML file, a shipped name, or none; default what method and prompt call for."""

    candidates: int = Field(4, ge=1)
    """Actions that a model offers at each step, for guided and random-of-n."""

    num_envs: int = Field(16, ge=1)
    """Episodes at once."""
    workers: int = Field(0, ge=0)
    """Worker processes that hold the environments; 0 keeps them in this process."""

    out: _PathText | None = None
    """Run folder; default a new one under runs/."""
    resume: bool = False
    """Finish what the run folder still owes."""
    retry_errors: bool = False
    """With --resume, play again the episodes that ended as error."""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print the results as JSON on standard output, and nothing else there."""
    show: int = Field(0, ge=0)
    """Print the transcripts of the first episodes that finish, so many."""
    config: _PathText | None = None
    """YAML file with any of these fields; flags override it."""
    preset: str | None = None
    """Values for a purpose: cpu (default of methods that train), smoke, paper."""
    eval_split: str | None = None
    """Held-out tasks of the evaluations during training; default the environment's evaluation split."""

    final_splits: tuple[str, ...] = ()
    """Further splits that a trained policy plays at the end, each task once (or so many --episodes)."""
    until: Literal["warm_start", "recordings", "meter"] | None = None
    """Stop behind this stage of the preparation of training; --resume goes on from there."""

    train: TrainConfig = TrainConfig.model_validate({})
    """Training settings; methods that only play ignore them, but for dtype, device and threads."""


#: Fields that say where and how fast, not what: they may differ when a run is resumed.
NOT_COMPARED = frozenset(
    {
        "api_key_env",
        "config",
        "json",
        "num_envs",
        "out",
        "preset",
        "resume",
        "retry_errors",
        "show",
        "threads",
        "until",
        "vllm_memory",
        "vllm_server_url",
        "workers",
    }
)
_RENAMED = {"as_json": "json"}  # a pydantic model has a method of that name
_NOT_STORED = frozenset({"out", "resume", "retry_errors", "json", "show", "config", "until"})


def field_names() -> list[str]:
    """Return the names of all fields as files and flags know them."""
    own = [_RENAMED.get(name, name) for name in RunConfig.model_fields if name != "train"]
    return own + list(TrainConfig.model_fields)


def flat(config: RunConfig) -> dict[str, Any]:
    """Return the settings as one flat mapping, ready for JSON; what concerns only one invocation is left out."""
    values = config.model_dump(mode="json", by_alias=False)
    train = values.pop("train")
    merged = {_RENAMED.get(name, name): value for name, value in values.items()} | train
    return {name: value for name, value in merged.items() if name not in _NOT_STORED}


def check_names(values: Iterable[str], known: Collection[str], where: str, advice: str = "") -> None:
    """Check that settings are known.

    Raises:
        ConfigError: If one is not; names the nearest.
    """
    for name in values:
        if name not in known:
            hint = nearest(str(name), known)
            raise ConfigError(
                f"{where}: unknown field {name!r}"
                + (f"; did you mean {' or '.join(map(repr, hint))}?" if hint else "; see --help for the fields")
                + advice
            )


def run_config(values: Mapping[str, Any], *, where: str = "settings") -> RunConfig:
    """Build the settings from a flat mapping of run and training fields.

    Raises:
        ConfigError: If a field is unknown (names the nearest) or a value cannot be.
    """
    check_names(values, field_names(), where)
    back = {new: old for old, new in _RENAMED.items()}
    own = {back.get(k, k): v for k, v in values.items() if k not in TrainConfig.model_fields}
    train = {k: v for k, v in values.items() if k in TrainConfig.model_fields}
    try:
        return RunConfig(**own, train=TrainConfig(**train))
    except ValidationError as error:
        raise ConfigError(f"{where}: {told(error)}") from error
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def load_config_file(path: str | Path) -> dict[str, Any]:
    """Read a YAML (or JSON) file of settings.

    Raises:
        ConfigError: If it cannot be read or is no mapping.
    """
    return read_mapping(path, "the config file")


def layered(
    *,
    stored: Mapping[str, Any] | None = None,
    preset: str | None = None,
    file: str | Path | None = None,
) -> RunConfig:
    """Return the settings below the flags: defaults or what a run folder stored, preset, file.

    Raises:
        ConfigError: If preset, file or stored settings are not what they should be.
    """
    values: dict[str, Any] = dict(stored or {})
    from_file = load_config_file(file) if file is not None else {}
    preset = preset or from_file.get("preset")
    if preset is not None:
        values |= preset_values(preset) | {"preset": preset}
    values |= from_file
    where = f"config file {file}" if from_file else "config.json of the run folder" if stored else "settings"
    return run_config(values, where=where)


def differences(stored: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return ``field: stored -> now`` for each setting that makes it another run."""
    out = []
    for name in sorted({*stored, *now} - NOT_COMPARED):
        before, after = stored.get(name), now.get(name)
        if not _same(before, after):
            out.append(f"{name}: {json.dumps(before)} -> {json.dumps(after)}")
    return out


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return bool(a == b)


def told(error: ValidationError) -> str:
    """Return field, reason and value of the first thing that is wrong."""
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"]) or "value"
    name = _RENAMED.get(name, name)
    return f"{name}: {first['msg'].removeprefix('Value error, ')}, got {first.get('input')!r}"


class RefusedError(Exception):
    """A flag's value that cannot be; no ValueError, so that the parser lets it pass."""


class Refusing(BaseModel):
    """Base of what the parser of flags builds; says in our words what cannot be."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise RefusedError(told(error)) from error


class _TrainFlags(Refusing, TrainConfig):
    pass


class _RunFlags(Refusing, RunConfig):
    train: _TrainFlags = _TrainFlags.model_validate({})


def parse_flags(base: RunConfig, args: Sequence[str], *, prog: str, description: str) -> RunConfig:
    """Let flags override ``base``; ``--help`` and unknown flags end the process as is usual for a command.

    Raises:
        ConfigError: If a value cannot be.
    """
    start = _RunFlags.model_construct(**{**dict(base), "train": _TrainFlags.model_construct(**dict(base.train))})
    try:
        found = tyro.cli(
            _RunFlags,
            default=start,
            args=list(args),
            prog=prog,
            description=description,
            config=(tyro.conf.OmitArgPrefixes,),
        )
    except RefusedError as error:
        raise ConfigError(f"flags: {error}") from error
    return RunConfig(**{**dict(found), "train": TrainConfig(**dict(found.train))})


def peek(args: Iterable[str], *names: str) -> dict[str, str]:
    """Return the values of some ``--name value`` or ``--name=value`` flags without parsing the others."""
    out: dict[str, str] = {}
    words = list(args)
    for index, word in enumerate(words):
        flag, equals, value = word.partition("=")
        key = flag.removeprefix("--").replace("-", "_")
        if not flag.startswith("--") or key not in names:
            continue
        if equals:
            out[key] = value
        elif index + 1 < len(words) and not words[index + 1].startswith("--"):
            out[key] = words[index + 1]
        else:
            out[key] = ""
    return out
