"""Running comparisons: everything is there at the end, whatever happened on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from slow_env import SLOW
from toy_envs import COUNTING

from agentgym_ttg.benchmarks.compare import main

SUPPORT = Path(__file__).parents[1] / "support"
TOYS = f"toy_envs:{COUNTING}"
FEW = ("--preset", "smoke", "--set", "eval_episodes=6", "--seeds", "0", "1")


@pytest.fixture(autouse=True)
def _toys_for_the_jobs(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))


def compare(out, *flags):
    return main(["--out", str(out), "--cores", "2", *flags])


def status(out):
    found = json.loads((out / "status.json").read_text())
    return {job["path"]: job for job in found["jobs"]}


def results_of(out):
    return {path.parent: json.loads(path.read_text()) for path in sorted(out.glob("runs/*/*/*/results.json"))}


def test_a_comparison_is_whole_and_is_not_done_twice(tmp_path, capsys):
    flags = ("--envs", TOYS, "--methods", "expert", "random", "--reference", "random", *FEW)
    assert compare(tmp_path / "out", *flags) == 0
    found = results_of(tmp_path / "out")
    assert len(found) == 4
    assert all(numbers["complete"] and numbers["episodes"] == 6 for numbers in found.values())
    assert all(numbers["peak_memory"]["rss_mb"] > 20 for numbers in found.values())
    assert {job["state"] for job in status(tmp_path / "out").values()} == {"done"}
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").rglob("*")}
    capsys.readouterr()
    assert main(["--out", str(tmp_path / "out"), "--json"]) == 0  # the folder knows the rest
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads((tmp_path / "out" / "results.json").read_text())
    assert [(method["label"], method["seeds"]) for method in told["envs"][0]["methods"]] == [
        ("expert", [0, 1]),
        ("random", [0, 1]),
    ]
    assert "| expert | 2 |" in (tmp_path / "out" / "compare.md").read_text()
    assert (tmp_path / "out" / "compare.csv").read_text().count("\n") == 3
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "runs").rglob("*")} == stamps


def test_a_failed_run_is_tried_again_shown_and_missed(tmp_path, capsys):
    file = tmp_path / "c.yaml"
    file.write_text("variants: {unheard: {method: react, model: m, base_url: 'http://127.0.0.1:9/v1'}}\n")
    flags = ("--config", str(file), "--envs", TOYS, "--methods", "random", "--reference", "random", "--preset", "smoke")
    assert compare(tmp_path / "out", *flags, "--seeds", "0", "--set", "eval_episodes=2", "--retries", "1") == 1
    told = capsys.readouterr().err
    assert "missing: runs/counting/unheard/seed-0 (failed)" in told
    assert "127.0.0.1:9" in told
    jobs = status(tmp_path / "out")
    assert jobs["runs/counting/unheard/seed-0"]["attempts"] == 2
    assert jobs["runs/counting/random/seed-0"]["state"] == "done"


def test_a_folder_with_other_runs_is_refused(tmp_path, capsys):
    flags = ("--envs", TOYS, "--methods", "random", "--reference", "random", "--seeds", "0", "--preset", "smoke")
    assert compare(tmp_path / "out", *flags, "--set", "eval_episodes=2") == 0
    before = (tmp_path / "out" / "compare.json").read_bytes()
    assert compare(tmp_path / "out", *flags, "--set", "eval_episodes=3") == 2
    assert "episodes: 2 -> 3" in capsys.readouterr().err
    assert (tmp_path / "out" / "compare.json").read_bytes() == before


def alive(out):
    """The job processes of a comparison."""
    found = subprocess.run(["ps", "-eww", "-o", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if "compare.worker" in line and str(out) in line]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_killed_and_resumed_is_uninterrupted(tmp_path, how):
    flags = ["--envs", f"slow_env:{SLOW}", "--methods", "random", "noisy-expert", "--reference", "random"]
    flags += ["--preset", "smoke", "--seeds", "0", "1", "--set", "eval_episodes=60", "num_envs=2", "--cores", "2"]
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "agentgym_ttg.benchmarks.compare", "--out", str(out), *flags]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 200
    while not list(out.glob("runs/*/*/*/trajectories.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.poll() is None, "the comparison ended before it could be killed"
    assert alive(out)
    os.kill(process.pid, how)
    assert process.wait() == (143 if how == signal.SIGTERM else -how)
    deadline = time.monotonic() + 60
    while alive(out) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(out), "jobs outlived their comparison"
    before = results_of(out)
    assert len(before) < 4 or not all(numbers["complete"] for numbers in before.values())
    assert main(["--out", str(out), "--cores", "2"]) == 0
    assert main(["--out", str(tmp_path / "whole"), *flags]) == 0
    kept = ("success_rate", "episodes", "assistant_tokens", "outcomes", "mean_steps")
    numbers = [[{name: r[name] for name in kept} for r in results_of(o).values()] for o in (out, tmp_path / "whole")]
    assert numbers[0] == numbers[1]


@pytest.mark.slow
def test_a_killed_job_goes_on(tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "agentgym_ttg.benchmarks.compare", "--out", str(out), "--cores", "1"]
    command += ["--envs", f"slow_env:{SLOW}", "--methods", "random", "--preset", "smoke", "--seeds", "0"]
    command += ["--reference", "random", "--set", "eval_episodes=200", "num_envs=2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    deadline = time.monotonic() + 200
    while not list(out.glob("runs/*/*/*/trajectories.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.02)
    (line,) = alive(out)
    os.kill(int(line.split()[0]), signal.SIGKILL)
    told = process.communicate(timeout=200)[1]
    assert process.returncode == 0
    assert "FAILED: runs/slow/random/seed-0 (attempt 1)" in told
    (job,) = status(out).values()
    assert (job["state"], job["attempts"]) == ("done", 2)
    assert [numbers["episodes"] for numbers in results_of(out).values()] == [200]


@pytest.fixture(scope="module")
def actor(tmp_path_factory):
    """A model that counts, but not well."""
    pytest.importorskip("torch", reason="the extra 'train' is not installed")
    pytest.importorskip("trl", reason="the extra 'train' is not installed")
    from counting_model import make_counting_models

    return make_counting_models(tmp_path_factory.mktemp("actor"), episodes=60, updates=(200,))[0]


@pytest.mark.slow
def test_runs_share_what_they_would_make_alike_and_are_what_they_would_be_alone(tmp_path, actor):
    settings = ["updates=1", "tasks_per_update=3", "group_size=4", "recordings=40", "eval_episodes=4", "max_steps=8"]
    settings += [
        f"warm_start_from={actor}",
        "max_response_tokens=4",
        "recorders=[expert, 'noisy:0.6', warm-start]",
    ]
    out = tmp_path / "out"
    flags = ["--envs", TOYS, "--methods", "grpo", "deltattg", "deltattg-stepstogo", "deltattg-rho0"]
    assert compare(out, *flags, "--preset", "smoke", "--seeds", "0", "--set", *settings) == 0
    found = {path.parent.name: numbers for path, numbers in results_of(out).items()}
    assert len(found) == 4
    assert all(numbers["training"]["updates"] == 1 for numbers in found.values())
    meters = {}
    for label in found:
        folder = out / "runs" / "counting" / label / "seed-0"
        meters[label] = json.loads((folder / "config.json").read_text())["meter"]
        assert not (folder / "recordings.jsonl").exists()
    assert meters["grpo"] is None
    assert meters["deltattg"] == meters["deltattg-rho0"] != meters["deltattg-stepstogo"]
    # The recordings were made once: both meters have the very same file, and its cost in their account.
    files = {os.stat(Path(meters[label]).parent / "recordings.jsonl").st_ino for label in found if meters[label]}
    assert len(files) == 1
    stages = json.loads((Path(meters["deltattg"]).parent / "stages.json").read_text())
    assert stages["recordings"]["seconds"] > 0 < stages["meter"]["seconds"]

    told = json.loads((out / "results.json").read_text())
    (env,) = told["envs"]
    costs = {method["label"]: method["cost"] for method in env["methods"]}
    for label in ("deltattg", "deltattg-rho0", "deltattg-stepstogo"):
        assert costs[label]["preparation"]["mean"] > 0
        assert costs[label]["meter_tokens"]["mean"] > 0
    assert costs["grpo"]["preparation"]["mean"] == costs["grpo"]["meter_tokens"]["mean"] == 0
    assert costs["grpo"]["relative"]["mean"] == 1

    from agentgym_ttg.benchmarks.run import main as run

    settings_file = next((out / "settings").glob("runs_counting_deltattg_seed-0.json"))
    assert run(["--config", str(settings_file), "--out", str(tmp_path / "alone"), "--threads", "1"]) == 0
    lone, ours = (
        [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
        for path in (tmp_path / "alone", out / "runs" / "counting" / "deltattg" / "seed-0")
    )
    for a, b in zip(lone, ours, strict=True):
        numbers = {name for name in a if not name.startswith("seconds")}
        assert {name: a[name] for name in numbers} == pytest.approx({name: b[name] for name in numbers}, abs=1e-5)
