"""From the settings of a comparison to its runs, and to what these share.

A run is an ordinary run folder. What several runs would make alike (the warm start, the recordings, the meter) is made
once, in run folders of their own under ``shared/``, and given to the runs by their settings.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym_ttg.agents.config import preset_values
from agentgym_ttg.agents.methods import Method, get_method
from agentgym_ttg.agents.preparation import Stage
from agentgym_ttg.core.errors import ConfigError

from ..config import NOT_COMPARED, RunConfig, flat, run_config
from ..setup import resolve, short_name
from .config import CompareConfig, sweep_points

__all__ = ["Job", "Plan", "Variant", "make_plan", "variants_of"]

#: Settings that neither warm start, recordings nor meter depend on. A setting that is not named here is taken to
#: matter: forgetting one costs time, not truth.
_AFTERWARDS = NOT_COMPARED | {
    *("method", "seed", "episodes", "temperature", "top_p", "noise", "base_url", "eval_split", "final_splits"),
    *("updates", "tasks_per_update", "group_size", "learning_rate", "lr_schedule", "warmup_updates", "weight_decay"),
    *("max_grad_norm", "minibatches", "microbatches", "epsilon_low", "epsilon_high", "dual_clip", "kl_coef"),
    *("entropy_coef", "invalid_action_penalty", "merge_rows", "normalize_over", "rho", "cap", "failure_cost"),
    *("sign_aware", "weight_reading", "max_sampling_rounds", "overlong_tokens", "overlong_buffer", "overlong_factor"),
    *("step_gamma", "step_norm", "step_weight", "anchor_similarity", "hgpo_history", "hgpo_alpha"),
    *("hgpo_weight_base", "hgpo_drop_zeros", "hgpo_base_group", "eval_every", "eval_episodes", "eval_temperature"),
    *("checkpoint_every", "gradient_checkpointing", "vllm", "meter"),
}
_OF_METER = frozenset({"meter_kind", "meter_backbone", "meter_layers", "meter_epochs"})
_OF_RECORDINGS = frozenset({"recordings", "recorders", "max_response_tokens"})


@dataclass(frozen=True, slots=True)
class Variant:
    """A column of the comparison.

    Attributes:
        label: Its name in tables.
        method: The method.
        settings: What it sets differently.
        meter_from: What is different where its meter learns: another environment (``env``) or other settings. None
            trains the meter where the method is trained.
    """

    label: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    meter_from: Mapping[str, Any] | None = None


@dataclass(eq=False, slots=True)
class Job:
    """One run folder to be filled.

    Attributes:
        path: The folder, relative to that of the comparison.
        settings: Flat settings of the run.
        needs: Shared jobs that have to be there before.
        until: The stage that a shared job ends with; None for a run.
        warm_start: The shared job whose warm start is to be taken.
        total: Policy updates of a run that trains, 0 otherwise.
    """

    path: str
    settings: dict[str, Any]
    needs: tuple[Job, ...] = ()
    until: Stage | None = None
    warm_start: Job | None = None
    total: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """All jobs of a comparison.

    Attributes:
        entries: ``jobs`` of ``compare.json``: path, label, env, method, seed, settings of the variant.
        jobs: The jobs, shared ones first; a run that two labels name is there once.
    """

    entries: list[dict[str, Any]]
    jobs: list[Job]


def variants_of(config: CompareConfig) -> list[Variant]:
    """Return the columns, in the order in which they were named.

    Raises:
        ConfigError: If two have the same label, or a variant names no method.
    """
    out = [Variant(name, name) for name in config.methods]
    for label, values in config.variants.items():
        if "method" not in values:
            raise ConfigError(f"variant {label!r}: expected its method, got {', '.join(values) or 'nothing'}")
        rest = {name: value for name, value in values.items() if name not in ("method", "meter_from")}
        elsewhere = values.get("meter_from")
        if elsewhere is not None and not isinstance(elsewhere, Mapping):
            raise ConfigError(f"variant {label!r}: expected meter_from to be settings, such as {{env: alfworld}}")
        out.append(Variant(label, str(values["method"]), rest, elsewhere))
    for name, points in sweep_points(config.sweep):
        out += [
            Variant(f"{method},{name}={point}", method, {name: point})
            for method in config.sweep_methods
            for point in points
        ]
    labels = [variant.label for variant in out]
    if repeated := sorted({label for label in labels if labels.count(label) > 1}):
        raise ConfigError(f"two columns are called {repeated[0]!r}; name each method, variant and sweep value once")
    if not out:
        raise ConfigError("expected methods, variants or a sweep, got none")
    return out


def make_plan(config: CompareConfig, folder: Path) -> Plan:
    """Return the jobs of a comparison.

    Args:
        config: The settings.
        folder: The comparison's folder; what runs share is named by absolute paths in it.

    Raises:
        ConfigError: If a method, environment or setting cannot be.
    """
    _check(config)
    columns = variants_of(config)
    runs: dict[str, Job] = {}
    entries: list[dict[str, Any]] = []
    shared = _Shared(folder, config.seed)
    for seed in config.seeds:  # seed by seed, so that an unfinished comparison has as many runs of each method
        for env in config.envs:
            for variant in columns:
                run = _run_settings(config, env, variant, seed)
                source = _meter_source(config, env, variant, run)
                values = flat(run)
                key = json.dumps([{name: values[name] for name in sorted(values)}, flat(source)], sort_keys=True)
                if key not in runs:
                    path = f"runs/{short_name(run.env)}/{_folder_name(variant.label)}/seed-{seed}"
                    if any(job.path == path for job in runs.values()):
                        raise ConfigError(f"two runs would share the folder {path}; choose other names")
                    runs[key] = shared.job(path, run, source, values)
                entries.append(
                    {
                        "path": runs[key].path,
                        "label": variant.label,
                        "env": run.env,
                        "method": variant.method,
                        "seed": seed,
                        "settings": dict(variant.settings)
                        | ({"meter_from": dict(variant.meter_from)} if variant.meter_from is not None else {}),
                    }
                )
    return Plan(entries, [*shared.jobs.values(), *runs.values()])


def _check(config: CompareConfig) -> None:
    for name in ("seeds", "envs"):
        values = getattr(config, name)
        if not values:
            raise ConfigError(f"expected {name}, got none")
        if len(set(values)) < len(values):
            raise ConfigError(f"{name}: expected each once, got {', '.join(map(str, values))}")
    if unknown := sorted(set(config.env_settings) - set(config.envs)):
        raise ConfigError(f"env_settings: {unknown[0]!r} is none of the envs {', '.join(config.envs)}")


def _run_settings(config: CompareConfig, env: str, variant: Variant, seed: int) -> RunConfig:
    values: dict[str, Any] = {}
    if config.preset is not None:
        values |= preset_values(config.preset) | {"preset": config.preset}
    values |= dict(config.settings) | config.env_settings.get(env, {}) | dict(variant.settings)
    for name in ("method", "env", "seed"):
        if name in values:
            raise ConfigError(f"{variant.label}: {name!r} is not for 'set' or a variant to say; see --help")
    values |= {"method": variant.method, "env": env, "seed": seed, "threads": config.threads_per_job}
    run = resolve(run_config(values, where=variant.label))
    if get_method(run.method).kind == "evaluate" and run.episodes is None:
        # As many held-out tasks as the trained policies play.
        run = run.model_copy(update={"episodes": run.train.eval_episodes})
    return run


def _meter_source(config: CompareConfig, env: str, variant: Variant, run: RunConfig) -> RunConfig:
    """Return the settings of the run that makes the variant's meter."""
    if variant.meter_from is None:
        return run
    changes = {name: value for name, value in variant.meter_from.items() if name != "env"}
    place = str(variant.meter_from.get("env", env))
    other = Variant(f"{variant.label}: meter_from", variant.method, dict(variant.settings) | changes)
    return _run_settings(config, place, other, run.seed)


def _folder_name(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9._=,+-]", "-", label).strip(".") or "_"


class _Shared:
    """Finds and makes the jobs that runs share."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.jobs: dict[str, Job] = {}

    def job(self, path: str, run: RunConfig, source: RunConfig, values: dict[str, Any]) -> Job:
        """Return the job of a run, with what it needs.

        Args:
            path: Its folder.
            run: Its settings.
            source: Those of the run that would make its meter: the same, unless the meter comes from elsewhere.
            values: Its settings as they are stored.
        """
        method = get_method(run.method)
        if method.kind != "train":
            return Job(path, values)
        method = method.with_signal(run.train)
        warm = self._warm_start(run, method)
        needs = [warm] if warm else []
        if method.needs_meter and method.meter_trained and run.train.meter is None:
            recorder = self._warm_start(source, method)
            recordings = self._stage("recordings", source, method, recorder)
            meter = self._stage("meter", source, method, recorder, recordings)
            needs.append(meter)
            values = {**values, "meter": str(self.folder / meter.path / "meter")}
        return Job(path, values, tuple(needs), warm_start=warm, total=run.train.updates)

    def _warm_start(self, run: RunConfig, method: Method) -> Job | None:
        given = run.train.warm_start_from or run.model
        return None if given else self._stage("warm_start", run, method, None)

    def _stage(self, stage: Stage, run: RunConfig, method: Method, warm: Job | None, *before: Job) -> Job:
        values = {**flat(run), "seed": self.seed}
        unused = _AFTERWARDS
        if stage != "meter":
            unused = unused | _OF_METER
        if stage == "warm_start":
            unused = unused | _OF_RECORDINGS
        # None is what a setting is before there is such a setting.
        key = {name: value for name, value in values.items() if name not in unused and value is not None}
        key |= {"stage": stage, "seed": self.seed, "env_kwargs_of_method": dict(method.env_kwargs)}
        if stage == "meter":
            key["target"] = method.meter_target
        digest = hashlib.blake2b(json.dumps(key, sort_keys=True).encode(), digest_size=6).hexdigest()
        path = f"shared/{stage.replace('_', '-')}-{digest}"
        if path not in self.jobs:
            needs = tuple(job for job in (warm, *before) if job is not None)
            self.jobs[path] = Job(path, values, needs, until=stage, warm_start=warm)
        return self.jobs[path]
