"""Training through the command that users call: configurations that must be equal are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra 'train' is not installed")
pytest.importorskip("trl", reason="the extra 'train' is not installed")

from counting_model import make_counting_models  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from toy_envs import COUNTING  # noqa: E402

from agentgym_ttg.benchmarks.run import main  # noqa: E402
from agentgym_ttg.core import load_trajectories  # noqa: E402

SUPPORT = Path(__file__).parents[1] / "support"
SMALL = [
    *("--env", f"toy_envs:{COUNTING}", "--split", "train", "--eval-split", "test", "--seed", "3"),
    *("--preset", "smoke", "--max-response-tokens", "4", "--num-envs", "16", "--threads", "1"),
    *("--updates", "4", "--tasks-per-update", "3", "--group-size", "4", "--checkpoint-every", "2"),
    *("--recordings", "60", "--recorders", "expert", "noisy:0.6", "warm-start", "--meter-epochs", "1"),
    *("--eval-episodes", "8", "--learning-rate", "1e-3", "--max-steps", "8"),
]


@pytest.fixture(scope="module")
def actor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that counts, but not well."""
    return make_counting_models(tmp_path_factory.mktemp("actor"), episodes=60, updates=(200,))[0]


@pytest.fixture(scope="module")
def meter(actor: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A meter for it, made by a run of its own."""
    out = tmp_path_factory.mktemp("meter") / "run"
    run(out, actor, "deltattg", "--updates", "1")
    return out / "meter"


def run(out: Path, actor: Path, method: str, *flags: str) -> dict:
    status = main(["--method", method, *SMALL, "--warm-start-from", str(actor), "--out", str(out), *flags])
    assert status == 0
    return json.loads((out / "results.json").read_text())


def weights(out: Path) -> dict:
    return load_file(out / "model" / "model.safetensors")


def assert_same_model(a: Path, b: Path) -> None:
    left, right = weights(a), weights(b)
    assert left.keys() == right.keys()
    for name in left:
        torch.testing.assert_close(left[name], right[name], atol=1e-5, rtol=0, msg=lambda m, n=name: f"{n}: {m}")


def numbers(out: Path, drop=("seconds", "meter", "kept", "weight", "zero_variance")) -> list[dict]:
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith(drop)} for row in rows]


def test_rho_one_and_cap_one_are_grpo(tmp_path: Path, actor: Path, meter: Path) -> None:
    run(tmp_path / "grpo", actor, "grpo")
    run(tmp_path / "rho", actor, "deltattg", "--meter", str(meter), "--rho", "1")
    run(tmp_path / "cap", actor, "deltattg", "--meter", str(meter), "--cap", "1")
    run(tmp_path / "ttg", actor, "deltattg", "--meter", str(meter))
    moved = max(
        float((weights(tmp_path / "grpo")[n] - load_file(actor / "model.safetensors")[n]).abs().max())
        for n in weights(tmp_path / "grpo")
    )
    assert moved > 1e-4, "nothing was learned, so equality would say nothing"
    for other in ("rho", "cap"):
        assert_same_model(tmp_path / "grpo", tmp_path / other)
        for a, b in zip(numbers(tmp_path / "grpo"), numbers(tmp_path / other), strict=True):
            assert a == pytest.approx(b, abs=1e-5)
    apart = max(
        float((weights(tmp_path / "grpo")[n] - weights(tmp_path / "ttg")[n]).abs().max())
        for n in weights(tmp_path / "grpo")
    )
    assert apart > 1e-5, "redistribution changed nothing"


def test_merged_rows_are_unmerged_rows(tmp_path: Path, actor: Path, meter: Path) -> None:
    flags = ("--meter", str(meter), "--kl-coef", "0.05")
    run(tmp_path / "merged", actor, "deltattg", *flags)
    run(tmp_path / "apart", actor, "deltattg", *flags, "--no-merge-rows")
    assert_same_model(tmp_path / "merged", tmp_path / "apart")


def test_what_is_done_is_not_done_again(tmp_path: Path, actor: Path) -> None:
    first = run(tmp_path / "run", actor, "deltattg", "--updates", "2")
    stamp = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.safetensors")}
    again = run(tmp_path / "run", actor, "deltattg", "--updates", "2", "--resume")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.safetensors")} == stamp
    assert again["success_rate"] == first["success_rate"]
    assert first["training"]["updates"] == 2
    assert set(first["training"]["meter"]["test"]) >= {"meter", "constant", "steps"}


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["recordings.jsonl", "meter", "metrics.jsonl", "checkpoints/checkpoint-2"])
def test_killed_and_resumed_is_uninterrupted(tmp_path: Path, actor: Path, stage: str) -> None:
    run(tmp_path / "whole", actor, "deltattg")
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "agentgym_ttg.benchmarks.run", "--method", "deltattg", *SMALL]
    command += ["--warm-start-from", str(actor), "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 240
    while not (out / stage).exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.poll() is None, "the run ended before it could be killed"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert (out / stage).exists()
    run(out, actor, "deltattg", "--resume")
    assert_same_model(tmp_path / "whole", out)
    assert numbers(tmp_path / "whole") == [pytest.approx(row, abs=1e-5) for row in numbers(out)]
    assert [row["update"] for row in numbers(out)] == [0, 1, 2, 3]
    recorded = [
        {t.metadata["episode_id"]: [str(turn.completion) for turn in t.turns] for t in load_trajectories(path)}
        for path in (tmp_path / "whole" / "recordings.jsonl", out / "recordings.jsonl")
    ]
    assert recorded[0] == recorded[1]


def test_windowed_prompts_train_too(tmp_path: Path, actor: Path) -> None:
    result = run(tmp_path / "run", actor, "grpo", "--prompt", "windowed", "--updates", "1", "--minibatches", "2")
    assert result["training"]["updates"] == 1
    assert np.isfinite(numbers(tmp_path / "run")[0]["loss"])
