"""What a training run makes before its first update, and what follows from the environment's limits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'train' is not installed")
pytest.importorskip("trl", reason="the extra 'train' is not installed")

from counting_model import make_counting_models  # noqa: E402
from toy_envs import COUNTING, CountingEnv  # noqa: E402

from agentgym_ttg.agents.config import TrainConfig  # noqa: E402
from agentgym_ttg.agents.policies.base import SamplingParams  # noqa: E402
from agentgym_ttg.agents.training_job import TrainingJob  # noqa: E402
from agentgym_ttg.benchmarks.run import main  # noqa: E402
from agentgym_ttg.core import Completion, Message, Trajectory, Turn, load_trajectories  # noqa: E402
from agentgym_ttg.envs.vector import make_vector_env  # noqa: E402
from agentgym_ttg.meter import MeterConfig, load_meter  # noqa: E402
from agentgym_ttg.meter.untrained import untrained_meter  # noqa: E402
from agentgym_ttg.wrappers.chat import PromptBuilder  # noqa: E402

SMALL = [
    *("--env", f"toy_envs:{COUNTING}", "--split", "train", "--eval-split", "test", "--seed", "3"),
    *("--preset", "smoke", "--max-response-tokens", "4", "--num-envs", "16", "--threads", "1", "--max-steps", "8"),
    *("--updates", "1", "--tasks-per-update", "2", "--group-size", "3", "--eval-episodes", "4"),
    *("--recordings", "40", "--recorders", "expert", "noisy:0.6", "--meter-epochs", "1"),
]


@pytest.fixture(scope="module")
def actor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_counting_models(tmp_path_factory.mktemp("actor"), episodes=40, updates=(60,))[0]


def run(out: Path, actor: Path, method: str, *flags: str) -> int:
    return main(["--method", method, *SMALL, "--warm-start-from", str(actor), "--out", str(out), *flags])


def stages(out: Path) -> dict:
    return json.loads((out / "stages.json").read_text())


def test_a_run_can_stop_behind_a_stage_and_go_on(tmp_path: Path, actor: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "run"
    assert run(out, actor, "deltattg", "--until", "recordings") == 0
    assert list(stages(out)) == ["warm_start", "recordings"]
    made = (out / "recordings.jsonl").read_bytes()
    assert not (out / "results.json").exists()
    assert run(out, actor, "deltattg", "--until", "meter", "--resume") == 0
    assert list(stages(out)) == ["warm_start", "recordings", "meter"]
    assert (out / "meter" / "meter.json").exists()
    assert not (out / "metrics.jsonl").exists()
    capsys.readouterr()
    assert main(["--resume", "--out", str(out), "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["complete"]
    assert results["training"]["updates"] == 1
    assert (out / "recordings.jsonl").read_bytes() == made


def test_further_splits_are_played_at_the_end(tmp_path: Path, actor: Path) -> None:
    out = tmp_path / "run"
    assert run(out, actor, "grpo", "--final-splits", "train", "--episodes", "5") == 0
    results = json.loads((out / "results.json").read_text())
    assert (results["split"], results["episodes"]) == ("test", 5)
    assert results["splits"]["train"]["episodes"] == 5
    played = load_trajectories(out / "trajectories-train.jsonl")
    assert len(played) == 5
    assert all(trajectory.task_id.startswith("count/train/") for trajectory in played)


def test_a_stage_that_a_run_does_not_have_is_told(tmp_path: Path, actor: Path, capsys: pytest.CaptureFixture) -> None:
    assert run(tmp_path / "a", actor, "grpo", "--until", "meter") == 2
    assert "'grpo' with these settings has no stage 'meter'; it has warm_start" in capsys.readouterr().err
    assert run(tmp_path / "b", actor, "deltattg-untrained", "--until", "recordings") == 2
    assert "it has warm_start, meter" in capsys.readouterr().err
    assert main(["--method", "expert", "--env", f"toy_envs:{COUNTING}", "--until", "meter"]) == 2
    assert "only plays" in capsys.readouterr().err


def histories(*observations: str) -> list[Trajectory]:
    turns = [Turn((Message("user", text),), Completion("up"), tokens=2) for text in observations]
    return [Trajectory(COUNTING, "t", turns=turns, outcome="failure")]


@pytest.mark.parametrize("target", ["tokens", "steps", "outcome"])
def test_an_untrained_meter_says_something_else_of_every_history(tmp_path: Path, actor: Path, target: str) -> None:
    config = MeterConfig(backbone=str(actor), target=target, seed=4, device="cpu")
    meter = untrained_meter(config, failure_cost=80.0)
    assert meter.target == target
    asked = histories("Count to 3. The die shows 7.", "Count 1, die 7.", "Count 2, die 7.")
    (said,) = meter.score(asked)
    assert all(estimate.valid for estimate in said)
    values = [e.score if target == "outcome" else e.completion_logit for e in said]
    assert len(set(values)) == 3
    assert untrained_meter(config, failure_cost=80.0).score(asked) == [said]
    other = untrained_meter(config.model_copy(update={"seed": 5}), failure_cost=80.0)
    assert other.score(asked) != [said]
    meter.save(tmp_path / "meter")
    (again,) = load_meter(tmp_path / "meter").score(asked)
    np.testing.assert_allclose([e.completion_logit for e in again], [e.completion_logit for e in said], atol=1e-6)


def test_the_untrained_variant_asks_its_own_meter_whatever_is_given(tmp_path: Path, actor: Path) -> None:
    assert run(tmp_path / "run", actor, "deltattg-untrained", "--meter", str(tmp_path / "nowhere")) == 0
    assert load_meter(tmp_path / "run" / "meter").settings.training["trained"] is False
    assert list(stages(tmp_path / "run")) == ["warm_start", "meter"]


def job(tmp_path: Path, target: str = "tokens", **config: float) -> TrainingJob:
    return TrainingJob(
        method="m",
        make_estimator=lambda *args: None,
        env_id=COUNTING,
        make_env=CountingEnv,
        make_envs=lambda **kwargs: make_vector_env(COUNTING, 2, **kwargs),
        split="train",
        eval_split="test",
        seed=0,
        prompt=PromptBuilder(),
        sampling=SamplingParams(max_tokens=12),
        config=TrainConfig.model_validate(config),
        folder=tmp_path,
        needs_meter=True,
        meter_target=target,
    )


def test_costs_and_lengths_follow_the_longest_episode_there_can_be(tmp_path: Path) -> None:
    probe, short = CountingEnv(max_steps=20), CountingEnv(max_steps=20, max_tokens=100)
    assert job(tmp_path).failure_cost(probe) == 240
    assert job(tmp_path, "normalized").failure_cost(probe) == 240
    assert job(tmp_path, "steps").failure_cost(probe) == 20
    assert job(tmp_path, failure_cost=7.0).failure_cost(probe) == 7
    assert job(tmp_path).filled_config(probe).overlong_tokens == 240
    assert job(tmp_path).filled_config(short).overlong_tokens == 100
    assert job(tmp_path, overlong_tokens=50.0).filled_config(short).overlong_tokens == 50
