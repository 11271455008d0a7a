"""Guided acting, its controls and scorers as training signals, through the command that users call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra 'train' is not installed")
pytest.importorskip("trl", reason="the extra 'train' is not installed")

from counting_model import make_counting_models
from toy_envs import COUNTING

from agentgym_ttg.agents.guided import GUIDANCE_METRICS
from agentgym_ttg.benchmarks.run import main
from agentgym_ttg.core import load_trajectories
from agentgym_ttg.meter.config import MeterConfig
from agentgym_ttg.meter.untrained import untrained_meter

COMMON = (
    *("--env", f"toy_envs:{COUNTING}", "--preset", "smoke", "--threads", "1", "--seed", "3"),
    *("--max-response-tokens", "4", "--max-steps", "8"),
)
PLAY = (*COMMON, "--split", "test", "--episodes", "6", "--num-envs", "4")
TRAIN = (
    *(*COMMON, "--split", "train", "--eval-split", "test", "--updates", "1", "--tasks-per-update", "4"),
    *("--group-size", "4", "--eval-episodes", "4", "--learning-rate", "1e-3", "--temperature", "0.7"),
)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A model that counts, but not well, at two points of its training."""
    return make_counting_models(tmp_path_factory.mktemp("models"), episodes=40, updates=(100, 50))


@pytest.fixture(scope="module")
def meter(models: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("meter") / "meter"
    untrained_meter(MeterConfig(backbone=str(models[0]), device="cpu"), failure_cost=10.0).save(folder)
    return folder


def run(out: Path, method: str, *flags: object) -> dict:
    assert main(["--method", method, "--out", str(out), *map(str, flags)]) == 0
    return dict(json.loads((out / "results.json").read_text()))


def test_guided_and_its_controls_report_success_steps_and_what_they_spent(tmp_path, models, meter):
    found = {
        method: run(tmp_path / method, method, *PLAY, "--model", models[0], "--candidates", 3, *more)
        for method, more in (("guided", ("--meter", meter)), ("random-of-n", ()), ("natural", ()))
    }
    for method, results in found.items():
        steps = sum(len(trajectory) for trajectory in load_trajectories(tmp_path / method / "trajectories.jsonl"))
        spent = results["guidance"]
        assert results["complete"]
        assert results["mean_steps"] * 6 == pytest.approx(steps)
        assert spent["candidates"] == steps * (1 if method == "natural" else 3)
        assert spent["actor_tokens"] >= results["assistant_tokens"]
        assert set(GUIDANCE_METRICS) <= set(spent)
    assert found["natural"]["guidance"]["actor_tokens"] == found["natural"]["assistant_tokens"]
    assert found["guided"]["guidance"]["scorer"] == "ttg"
    assert found["guided"]["guidance"]["branch_executions"] > 0
    assert found["guided"]["guidance"]["scorer_tokens"] > 0
    for method in ("random-of-n", "natural"):
        assert found[method]["guidance"]["scorer"] is None
        assert found[method]["guidance"]["branch_executions"] == found[method]["guidance"]["scorer_tokens"] == 0


def test_what_is_trained_on_is_what_was_sampled_whichever_candidate_was_taken(tmp_path, models, meter):
    run(tmp_path / "run", "guided", *PLAY, "--model", models[0], "--meter", meter)
    for trajectory in load_trajectories(tmp_path / "run" / "trajectories.jsonl"):
        for before, after in zip(trajectory.turns, trajectory.turns[1:], strict=False):
            ids = (*before.prompt_ids, *before.completion.token_ids)
            assert after.prompt_ids[: len(ids)] == ids


def test_a_guided_run_that_was_interrupted_goes_on_to_the_same_result(tmp_path, models, meter):
    flags = (*PLAY, "--model", models[0], "--meter", meter)
    whole = run(tmp_path / "whole", "guided", *flags)
    run(tmp_path / "part", "guided", *flags)
    path = tmp_path / "part" / "trajectories.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    again = run(tmp_path / "part", "guided", *flags, "--resume")
    same = ("success_rate", "mean_steps", "assistant_tokens")
    assert {name: again[name] for name in same} == {name: whole[name] for name in same}
    assert again["guidance"]["branch_executions"] == whole["guidance"]["branch_executions"]


def test_any_scorer_can_guide(tmp_path, models):
    options = ("--signal", "progress-advantage", "--signal-options", f"reference={models[1]}", "token_aggregation=sum")
    results = run(tmp_path / "run", "guided", *PLAY, "--model", models[0], *options)
    assert results["guidance"]["scorer"] == "progress-advantage"
    assert results["guidance"]["scorer_tokens"] > 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "needs a trained meter: --meter"),
        (("--signal", "progres-advantage"), "did you mean 'progress-advantage'"),
        (("--signal", "progress-advantage"), "needs --reference"),
        (("--signal", "deepconf", "--signal-options", "windw=3"), "did you mean 'window'"),
        (("--signal", "deepconf", "--signal-options", "window=0"), "window"),
    ],
)
def test_what_is_missing_is_said_before_there_is_a_folder(tmp_path, models, capsys, flags, said):
    status = main(["--method", "guided", "--out", str(tmp_path / "run"), *PLAY, "--model", str(models[0]), *flags])
    assert status == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("signal", "options"),
    [
        ("progress-advantage", lambda models: (f"model={models[1]}", "reference=warm-start", "order=ratio-first")),
        ("progress-advantage", lambda models: (f"model={models[1]}",)),
        ("mean-logprob", lambda models: ()),
        ("self-certainty", lambda models: ("model=warm-start",)),
    ],
)
def test_deltattg_redistributes_by_any_scorer_and_trains_no_meter(tmp_path, models, signal, options):
    flags = (*TRAIN, "--warm-start-from", models[0], "--signal", signal)
    chosen = options(models)
    out = tmp_path / "run"
    run(out, "deltattg", *flags, *(("--signal-options", *chosen) if chosen else ()))
    update = json.loads((out / "metrics.jsonl").read_text().splitlines()[0])
    assert list(json.loads((out / "stages.json").read_text())) == ["warm_start"]
    assert not (out / "meter").exists()
    assert 0 < update["success"] < 1
    assert update["kept_original"] < 1, "nothing was redistributed"
    assert update["weight_std"] > 0
    assert update["weight_mean"] == pytest.approx(1, abs=0.5)
    assert (out / "model" / "model.safetensors").exists()


def test_a_variant_with_a_signal_of_its_own_refuses_another(tmp_path, models, capsys):
    flags = [*TRAIN, "--warm-start-from", str(models[0]), "--signal", "mean-logprob"]
    assert main(["--method", "deltattg-outcome", "--out", str(tmp_path / "run"), *flags]) == 2
    assert "goes with deltattg" in capsys.readouterr().err
