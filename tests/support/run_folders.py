"""Writes run and comparison folders as ``benchmarks.run`` and ``benchmarks.compare`` leave them, with known numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym_ttg.agents.run_files import JsonLines
from agentgym_ttg.benchmarks.config import flat, run_config
from agentgym_ttg.benchmarks.results import EpisodeRecord, summarise
from agentgym_ttg.benchmarks.run_folder import write_json

ALFWORLD = "agentgym_ttg/ALFWorld-v0"
SEARCH = "agentgym_ttg/PaperSearchQA-v0"
TYPES = ("pick_and_place", "look_at_obj_in_light")


def write_run(
    folder: Path,
    method: str = "grpo",
    *,
    seed: int = 0,
    env: str = ALFWORLD,
    curve: Sequence[float] = (0.2, 0.4, 0.6),
    every: int = 5,
    tokens: int = 1000,
    seconds: float = 1.0,
    meter_seconds: float = 0.0,
    episodes: int = 50,
    complete: bool = True,
    splits: Mapping[str, float] | None = None,
    default_cost: float | None = None,
    **settings: Any,
) -> Path:
    """Write the folder of a run that trained.

    Args:
        folder: Where.
        method: The method.
        seed: Seed of the run.
        env: The environment.
        curve: Success on held-out tasks before the first update, then each ``every`` updates; the last is the final
            result as well. Multiples of ``1 / episodes``.
        every: Updates between evaluations.
        tokens: Actor tokens of an update.
        seconds: Wall time of an update without the meter: half rollout, half optimiser.
        meter_seconds: Wall time of asking the meter in an update; 0 for a method without one.
        episodes: Of an evaluation.
        complete: Whether the run says that everything is there.
        splits: Final success on further splits.
        default_cost: C of a run whose settings leave it open.
        settings: Of the run, beside the defaults.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = run_config({"method": method, "env": env, "seed": seed, "eval_split": "valid_seen", **settings})
    updates = every * (len(curve) - 1)
    write_json(folder / "config.json", flat(config))
    git = {"commit": "c0ffee" * 6 + "abcd", "dirty": False}
    write_json(folder / "environment.json", {"started": "2026-01-02T03:04:05+00:00", "git": git, "data": {}})
    stages: dict[str, Any] = {"warm_start": {"seconds": 2.0, "result": "asset:tiny"}}
    metrics = JsonLines(folder / "metrics.jsonl")
    for update in range(updates):
        row = {
            "update": update,
            "episodes": 8,
            "success": curve[update // every],
            "reward": curve[update // every],
            "actor_tokens": tokens * (update + 1),
            "trained_tokens": tokens - 100,
            "seconds_rollout": seconds / 2,
            "seconds_meter": meter_seconds,
            "seconds_update": seconds / 2,
        }
        metrics.append(row | ({"meter_tokens": 700 * (update + 1)} if meter_seconds else {}))
    evaluations = JsonLines(folder / "evaluations.jsonl")
    for index, rate in enumerate(curve):
        evaluations.append(
            {
                "update": index * every,
                "split": "valid_seen",
                "eval_success": rate,
                "eval_low": max(0.0, rate - 0.1),
                "eval_high": min(1.0, rate + 0.1),
                "eval_episodes": episodes,
                "seconds": 0.5,
            }
        )
    write_json(folder / "stages.json", stages)
    results: dict[str, Any] = {"env": env, "method": method, "seed": seed, "complete": complete, "split": "valid_seen"}
    results |= played(curve[-1], episodes)
    results["splits"] = {name: {"split": name, **played(rate, episodes)} for name, rate in (splits or {}).items()}
    results["training"] = {"updates": updates, "failure_cost": settings.get("failure_cost", default_cost)}
    results["peak_memory"] = {"rss_mb": 500.0 + seed, "gpu_mb": None}
    write_json(folder / "results.json", results)
    return folder


def played(rate: float, episodes: int) -> dict[str, Any]:
    """Return the numbers of episodes of which this share succeeded."""
    wins = round(rate * episodes)
    assert math.isclose(wins, rate * episodes, abs_tol=1e-9), "the rate is none of so many episodes"
    return summarise(
        EpisodeRecord(i, f"t{i}", TYPES[i % 2], "success" if i < wins else "truncated", 6, 30, 1, 0, float(i < wins))
        for i in range(episodes)
    )


def write_evaluation(folder: Path, method: str, *, rate: float, seed: int = 0, env: str = ALFWORLD) -> Path:
    """Write the folder of a run that only played, as ``--method expert`` leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", flat(run_config({"method": method, "env": env, "seed": seed})))
    numbers = played(rate, 50)
    write_json(folder / "results.json", {"env": env, "split": "valid_seen", "complete": True, **numbers})
    return folder


def write_meter(folder: Path, *, env: str = ALFWORLD, **settings: Any) -> Path:
    """Write the run folder that made a meter; return the meter's folder in it."""
    (folder / "meter").mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", flat(run_config({"method": "deltattg", "env": env, **settings})))
    stages = {"warm_start": {"seconds": 2.0}, "recordings": {"seconds": 20.0}, "meter": {"seconds": 40.0}}
    write_json(folder / "stages.json", stages)
    quality = {"completion_auroc": 0.875, "token_accuracy": 0.75, "mean_absolute_error": 6.1, "invalid": 0.0}
    write_json(
        folder / "meter" / "report.json",
        {
            "folder": str(folder),
            "kind": "head",
            "trajectories": {"train": 320, "validation": 40, "test": 40},
            "envs": {env: 400},
            "test": {"meter": quality, "constant": {}, "steps": {}, "beats_references": True},
        },
    )
    return folder / "meter"


def write_comparison(folder: Path, jobs: Sequence[Mapping[str, Any]], *, reference: str = "grpo") -> Path:
    """Write a comparison folder: each job is a ``label`` and what :func:`write_run` takes.

    ``begun=False`` leaves the run unwritten, ``rate`` makes it one that only played.
    """
    entries = []
    for job in jobs:
        values = {"method": "grpo", "env": ALFWORLD, "seed": 0, "begun": True} | dict(job)
        label, begun = values.pop("label", values["method"]), values.pop("begun")
        short = values["env"].split("/")[-1].split("-v")[0].lower()
        path = f"runs/{short}/{label}/seed-{values['seed']}"
        if begun and "rate" in values:
            write_evaluation(folder / path, **values)
        elif begun:
            write_run(folder / path, **values)
        cell = {name: values[name] for name in ("env", "method", "seed")}
        entries.append({"path": path, "label": label, **cell, "settings": {}})
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"reference": reference, "methods": sorted({entry["method"] for entry in entries})}
    (folder / "compare.json").write_text(json.dumps({"settings": settings, "jobs": entries}))
    return folder
