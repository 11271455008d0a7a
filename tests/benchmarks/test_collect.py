import json
import signal
import time
from collections import Counter

import pytest
from slow_env import SLOW
from toy_envs import COUNTING

from agentgym_ttg.benchmarks.collect import main
from agentgym_ttg.core import load_trajectories
from agentgym_ttg.core.trajectory_files import trajectory_to_dict

TOY = ("--env", f"toy_envs:{COUNTING}")
POLICIES = ("--policies", "expert", "noisy:0.6", "random")


def by_id(path):
    found = load_trajectories(path)
    table = {t.metadata["episode_id"]: trajectory_to_dict(t) for t in found}
    assert len(table) == len(found)
    return table


def test_one_file_with_the_policys_name_on_each(tmp_path, capsys):
    out = tmp_path / "deep" / "recorded.jsonl"
    assert main([*TOY, *POLICIES, "--episodes", "32", "--out", str(out), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    found = load_trajectories(out)
    assert Counter(t.policy for t in found) == {"expert": 11, "noisy:0.6": 11, "random": 10}
    assert summary["trajectories"] == 32
    assert summary["policies"]["expert"]["success_rate"] == 1.0
    assert summary["policies"]["random"]["success_rate"] < 1.0
    assert {t.task_id.split("/")[1] for t in found} == {"train"}
    assert len({t.task_id for t in found}) == 32  # every policy meets other tasks
    beside = json.loads((tmp_path / "deep" / "recorded.jsonl.json").read_text())
    assert beside["config"]["policies"] == list(POLICIES[1:])
    assert beside["environment"]["data"]["source"] == "built-in"


def test_the_seed_determines_the_file(tmp_path):
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        main([*TOY, *POLICIES, "--episodes", "12", "--seed", seed, "--out", str(tmp_path / name)])
    assert by_id(tmp_path / "a") == by_id(tmp_path / "b") != by_id(tmp_path / "c")


def test_killed_and_resumed_is_as_uninterrupted(tmp_path, started):
    flags = ["--env", f"slow_env:{SLOW}", *POLICIES, "--episodes", "45", "--num-envs", "4"]
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    assert main([*flags, "--out", str(whole)]) == 0
    process = started("agentgym_ttg.benchmarks.collect", *flags, "--out", killed)
    deadline = time.monotonic() + 240  # only against hanging
    while not killed.exists() or killed.read_bytes().count(b"\n") < 20:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(by_id(killed)) < 45
    assert main([*flags, "--out", str(killed), "--resume"]) == 0
    assert by_id(killed) == by_id(whole)


def test_an_interruption_says_how_to_go_on(tmp_path, started):
    flags = ["--env", f"slow_env:{SLOW}", "--policies", "expert", "--episodes", "300", "--num-envs", "4"]
    out = tmp_path / "file.jsonl"
    process = started("agentgym_ttg.benchmarks.collect", *flags, "--out", out)
    while not out.exists() or out.read_bytes().count(b"\n") < 3:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=240)
    assert process.returncode == 130
    assert f"--out {out} --resume" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--policies", "exprt"], "unknown policy 'exprt'"),
        (["--policies", "noisy:2"], "[0, 1]"),
        (["--policies", "noisy:x"], "number"),
        (["--policies", "expert", "expert"], "twice"),
        (["--policies"], "at least one policy"),
        (["--split", "tran"], "'train'"),
        (["--env", "agentgym_ttg/Alfred-v0"], "unknown environment"),
    ],
)
def test_what_cannot_work_is_told(flags, told, tmp_path, capsys):
    assert main([*TOY, *flags, "--out", str(tmp_path / "file.jsonl")]) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_is_not_touched(tmp_path, capsys):
    out = tmp_path / "file.jsonl"
    main([*TOY, "--policies", "expert", "--episodes", "3", "--out", str(out)])
    before = out.read_bytes()
    assert main([*TOY, "--policies", "expert", "--episodes", "3", "--out", str(out)]) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*TOY, "--policies", "expert", "--episodes", "5", "--out", str(out), "--resume"]) == 2
    assert "episodes: 3 -> 5" in capsys.readouterr().err
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_bytes(before)
    assert main([*TOY, "--policies", "expert", "--episodes", "3", "--out", str(foreign), "--resume"]) == 2
    assert "not made by this command" in capsys.readouterr().err
    assert out.read_bytes() == foreign.read_bytes() == before
