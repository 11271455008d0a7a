import json
import resource
import signal
import sys
import time

import pytest
from slow_env import SLOW
from toy_envs import COUNTING

from agentgym_ttg.benchmarks.evaluate import plan_episodes
from agentgym_ttg.benchmarks.run import main
from agentgym_ttg.core import TrajectoryWriter, load_trajectories
from agentgym_ttg.core.statistics import wilson_interval
from agentgym_ttg.core.trajectory_files import trajectory_to_dict
from agentgym_ttg.envs.tasks import TaskSet

RUN = "agentgym_ttg.benchmarks.run"
TOY = ("--env", f"toy_envs:{COUNTING}", "--split", "test")
SLOWLY = ("--env", f"slow_env:{SLOW}", "--method", "noisy-expert", "--num-envs", "4", "--seed", "5")


def read(folder, name="results.json"):
    return json.loads((folder / name).read_text())


def episodes(folder):
    """Everything that was recorded, by episode."""
    found = load_trajectories(folder / "trajectories.jsonl")
    table = {t.metadata["episode"]: trajectory_to_dict(t) for t in found}
    assert len(table) == len(found)
    return table


def timeless(results):
    return {name: value for name, value in results.items() if name not in ("wall_s", "peak_memory")}


def wait_for_episodes(folder, count, process):
    path = folder / "trajectories.jsonl"
    deadline = time.monotonic() + 240  # only against hanging: starting takes long where the machine is busy
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_numbers_are_those_of_the_episodes(tmp_path, capsys):
    out = tmp_path / "run"
    assert main([*TOY, "--method", "noisy-expert", "--episodes", "60", "--seed", "2", "--out", str(out)]) == 0
    results, played = read(out), load_trajectories(out / "trajectories.jsonl")
    wins = [t.success for t in played]
    assert 0 < sum(wins) < 60
    assert results["episodes"] == len(played) == 60
    assert results["complete"] is True
    assert results["success_rate"] == sum(wins) / 60
    assert (results["success_low"], results["success_high"]) == wilson_interval(sum(wins), 60)
    steps = sum(len(t) for t in played)
    tokens = sum(turn.tokens for t in played for turn in t.turns)
    assert results["mean_steps"] == pytest.approx(steps / 60)
    assert results["assistant_tokens_per_episode"] == pytest.approx(tokens / 60)
    assert results["invalid_action_rate"] == 0
    assert results["errors"] == 0
    assert results["outcomes"]["success"] + results["outcomes"]["truncated"] == 60
    assert (results["env"], results["split"], results["data"]) == (COUNTING, "test", "built-in")
    kinds = results["task_types"]
    assert sum(kind["episodes"] for kind in kinds.values()) == 60
    for name, kind in kinds.items():
        mine = [t.success for t in played if t.metadata["task_type"] == name]
        assert (kind["episodes"], kind["successes"]) == (len(mine), sum(mine))
    assert results["metrics"]["ups"] == pytest.approx(sum(t.metadata["metrics"]["ups"] for t in played) / 60)
    assert f"{results['success_rate']:.1%}" in capsys.readouterr().out
    environment = read(out, "environment.json")
    assert environment["python"]
    assert environment["packages"]["gymnasium"]
    assert environment["data"]["source"] == "built-in"
    assert (out / "report.html").exists()


def test_evaluation_splits_are_met_in_order_and_training_splits_shuffled(tmp_path):
    main([*TOY, "--episodes", "5", "--out", str(tmp_path / "test")])
    assert [episodes(tmp_path / "test")[i]["task_id"] for i in range(5)] == [f"count/test/{i:06d}" for i in range(5)]
    orders = []
    for number, seed in enumerate(("1", "1", "2")):
        out = tmp_path / str(number)
        main([*TOY[:2], "--split", "train", "--episodes", "5", "--seed", seed, "--out", str(out)])
        orders.append([episodes(out)[i]["task_id"] for i in range(5)])
    assert orders[0] == orders[1] != orders[2]
    assert orders[0] != sorted(orders[0])


def test_more_episodes_than_tasks_begin_again():
    plan = plan_episodes(TaskSet("test", ["a", "b", "c"]), episodes=7, seed=0)
    assert [spec.task_id for spec in plan] == ["a", "b", "c", "a", "b", "c", "a"]
    assert len({spec.seed for spec in plan}) == 7  # the same task, but not the same episode
    assert [spec.task_id for spec in plan_episodes(TaskSet("test", ["a", "b"]), episodes=None, seed=0)] == ["a", "b"]


def test_the_result_does_not_depend_on_how_many_run_at_once(tmp_path):
    for slots in ("1", "7"):
        main(
            [*TOY, "--method", "noisy-expert", "--episodes", "20", "--num-envs", slots, "--out", str(tmp_path / slots)]
        )
    assert episodes(tmp_path / "1") == episodes(tmp_path / "7")
    assert timeless(read(tmp_path / "1")) == timeless(read(tmp_path / "7"))


def test_killed_and_resumed_is_as_uninterrupted(tmp_path, started):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert main([*SLOWLY, "--split", "test", "--episodes", "60", "--out", str(whole)]) == 0
    process = started(RUN, *SLOWLY, "--split", "test", "--episodes", "60", "--out", killed)
    wait_for_episodes(killed, 15, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with open(killed / "trajectories.jsonl", "ab") as file:
        file.write(b'{"schema_version": 1, "env')  # as a kill in the middle of a write leaves it
    before = episodes(killed)
    assert 15 <= len(before) < 60
    assert main(["--resume", "--out", str(killed)]) == 0
    after = episodes(killed)
    assert {number: after[number] for number in before} == before
    assert after == episodes(whole)
    assert timeless(read(killed)) == timeless(read(whole))
    assert read(killed, "config.json") == read(whole, "config.json")
    assert len(read(killed, "environment.json")["resumed"]) == 1


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_what_is_there_and_says_how_to_go_on(tmp_path, started, number, status):
    out = tmp_path / "a run"
    process = started(RUN, *SLOWLY, "--split", "test", "--episodes", "300", "--out", out)
    wait_for_episodes(out, 5, process)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=240)
    assert process.returncode == status
    assert "Traceback" not in stderr
    assert f"--resume --out '{out}'" in stderr
    assert stdout == ""
    results = read(out)
    assert results["complete"] is False
    assert 5 <= results["episodes"] == len(episodes(out)) < 300
    assert results["episodes"] + results["episodes_owed"] == 300


def test_resuming_a_finished_run_plays_nothing_and_says_the_same(tmp_path, capsys):
    out = tmp_path / "run"
    main([*TOY, "--episodes", "8", "--out", str(out), "--json"])
    first, written = json.loads(capsys.readouterr().out), (out / "trajectories.jsonl").read_bytes()
    assert main(["--resume", "--out", str(out), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert timeless(again) == timeless(first)
    assert again["wall_s"] >= first["wall_s"]
    assert (out / "trajectories.jsonl").read_bytes() == written


def test_broken_episodes_are_kept_counted_and_retried_on_request(tmp_path):
    out = tmp_path / "run"
    assert (
        main([*TOY, "--episodes", "667", "--num-envs", "64", "--env-kwargs", "cursed=true", "--out", str(out)]) == 0
    )  # task 666 burns
    results = read(out)
    assert (results["errors"], results["successes"], results["complete"]) == (1, 666, True)
    assert results["success_rate"] == 666 / 667  # breaking down is not solving
    assert "burns" in episodes(out)[666]["metadata"]["error"]
    main(["--resume", "--out", str(out)])
    assert read(out)["errors"] == 1
    healthy = [t for t in load_trajectories(out / "trajectories.jsonl") if t.outcome != "error"]
    assert main(["--resume", "--retry-errors", "--out", str(out)]) == 0
    assert len(episodes(out)) == 667
    assert read(out)["errors"] == 1  # it burns again, and is there once
    assert [trajectory_to_dict(t) for t in load_trajectories(out / "trajectories.jsonl")][:666] == [
        trajectory_to_dict(t) for t in healthy
    ]


def test_a_folder_in_use_is_refused(tmp_path, capsys):
    out = tmp_path / "run"
    main([*TOY, "--episodes", "3", "--out", str(out)])
    capsys.readouterr()
    assert main([*TOY, "--episodes", "3", "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert "already holds a run" in said
    assert f"--resume --out {out}" in said
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine")
    assert main([*TOY, "--episodes", "3", "--out", str(tmp_path / "other")]) == 2
    assert "thesis.tex" in capsys.readouterr().err
    assert sorted(p.name for p in (tmp_path / "other").iterdir()) == ["thesis.tex"]


def test_a_run_that_is_being_written_is_refused(tmp_path, started, capsys):
    out = tmp_path / "run"
    process = started(RUN, *SLOWLY, "--split", "test", "--episodes", "300", "--out", out)
    wait_for_episodes(out, 2, process)
    assert main(["--resume", "--out", str(out)]) == 2
    assert "another process" in capsys.readouterr().err


def test_another_config_is_refused_and_the_keys_are_named(tmp_path, capsys):
    out = tmp_path / "run"
    main([*TOY, "--episodes", "3", "--out", str(out)])
    capsys.readouterr()
    assert main(["--resume", "--out", str(out), "--episodes", "4", "--max-steps", "7"]) == 2
    said = capsys.readouterr().err
    assert "episodes: 3 -> 4" in said
    assert "max_steps: null -> 7" in said
    assert "\n" not in said.strip()
    assert main(["--resume", "--out", str(out), "--num-envs", "2"]) == 0  # how fast, not what


def test_other_data_are_refused(tmp_path, capsys):
    out = tmp_path / "run"
    main([*TOY, "--episodes", "3", "--out", str(out)])
    environment = read(out, "environment.json")
    environment["data"]["hash"] = "another"
    (out / "environment.json").write_text(json.dumps(environment))
    assert main(["--resume", "--out", str(out)]) == 2
    assert "other data" in capsys.readouterr().err


def test_episodes_of_another_run_are_refused(tmp_path, capsys):
    out = tmp_path / "run"
    main([*TOY, "--episodes", "3", "--out", str(out)])
    stray = load_trajectories(out / "trajectories.jsonl")[0]
    stray.metadata["episode"] = 77
    with TrajectoryWriter(out / "trajectories.jsonl") as writer:
        writer.write(stray)
    assert main(["--resume", "--out", str(out)]) == 2
    assert "episode 77" in capsys.readouterr().err


def test_nothing_to_resume(tmp_path, capsys):
    assert main(["--resume", "--out", str(tmp_path / "typo")]) == 2
    assert "nothing to resume" in capsys.readouterr().err
    assert not (tmp_path / "typo").exists()
    assert main(["--resume"]) == 2
    assert "--out" in capsys.readouterr().err
    # A script may always say --resume: with the settings given, it starts.
    given = [*TOY, "--method", "expert", "--episodes", "3"]
    assert main([*given, "--resume", "--out", str(tmp_path / "new")]) == 0


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--method", "expret"], "'expert'"),
        (["--env", "agentgym_ttg/ALFWord-v0"], "agentgym_ttg/ALFWorld-v0"),
        (["--env", "no_such_module_here:x"], "no_such_module_here"),
        (["--env", "CartPole-v1"], "from_text_env"),
        ([*TOY[:2], "--split", "tset"], "'test'"),
        ([*TOY, "--rho", "2"], "rho"),
        ([*TOY, "--episodes", "0"], "episodes"),
        ([*TOY, "--temperature", "-1"], "temperature"),
        ([*TOY, "--env-kwargs", "curesd=1"], "'cursed'"),
        ([*TOY, "--env-kwargs", "split=train"], "'split'"),
        ([*TOY, "--data-dir", "/tmp"], "--data-dir"),
        ([*TOY, "--action-format", "tag"], "'tags'"),
        ([*TOY, "--method", "react"], "--model"),
        ([*TOY, "--template", "nothing-like-it"], "template"),
        ([*TOY, "--preset", "smok"], "'smoke'"),
        (["--data-dir", "/no/such/folder"], "/no/such/folder"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_what_cannot_work_is_told_in_one_paragraph(flags, told, tmp_path, capsys):
    assert main([*flags, "--out", str(tmp_path / "run")]) == 2
    captured = capsys.readouterr()
    assert told in captured.err
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("error: ")
    assert captured.out == ""
    assert not (tmp_path / "run").exists()


def test_an_unknown_flag_names_the_nearest(tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--episode", "3"])
    assert caught.value.code == 2
    assert "--episodes" in capsys.readouterr().err


@pytest.mark.parametrize("out", ["/proc/agentgym/run", "/dev/null/run", "/dev/null"])
def test_a_folder_that_cannot_be_written(out, capsys):
    assert main([*TOY, "--episodes", "3", "--out", out]) == 2
    said = capsys.readouterr().err
    assert "/dev/null" in said or "/proc/agentgym" in said
    assert said.count("\n") == 1


def test_a_full_disk_ends_the_run_with_what_to_do(tmp_path, command):
    out = tmp_path / "run"
    done = command(
        RUN, *TOY, "--episodes", "300", "--out", out,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)),
    )  # fmt: skip
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert f"--resume --out {out}" in done.stderr
    assert "Traceback" not in done.stderr
    kept = episodes(out)
    assert 0 < len(kept) < 300
    assert main(["--resume", "--out", str(out)]) == 0
    assert len(episodes(out)) == 300


def test_json_is_alone_on_standard_output(tmp_path, command):
    done = command(RUN, *TOY, "--episodes", "4", "--show", "2", "--json", "--out", tmp_path / "run")
    assert json.loads(done.stdout) == read(tmp_path / "run")
    assert done.stderr.count("── success") == 2


def test_nothing_but_the_results_where_there_is_no_terminal(tmp_path, command):
    done = command(RUN, *TOY, "--episodes", "4", "--out", tmp_path / "run")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "100.0%" in done.stdout


def test_without_out_a_new_folder_below_runs_each_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main([*TOY, "--episodes", "2"]) == 0
    folders = sorted((tmp_path / "runs").iterdir())
    assert len(folders) == 2
    assert all("counting-expert" in folder.name for folder in folders)


def test_worker_processes_give_the_same(tmp_path):
    for workers in ("0", "2"):
        main([*TOY, "--episodes", "6", "--num-envs", "3", "--workers", workers, "--out", str(tmp_path / workers)])
    assert episodes(tmp_path / "0") == episodes(tmp_path / "2")


def test_the_built_in_games_are_labelled(tmp_path, capsys):
    assert main(["--episodes", "6", "--out", str(tmp_path / "run")]) == 0
    results = read(tmp_path / "run")
    assert results["data"].startswith("built-in")
    assert results["split"] == "valid_seen"
    assert results["success_rate"] == 1.0
    assert len(results["task_types"]) == 6


@pytest.mark.parametrize("method", ["deltattg", "react"])
def test_what_is_not_installed_is_told_with_the_extra(method, tmp_path, monkeypatch, capsys):
    class Nowhere:
        def find_spec(self, name, path=None, target=None):
            if name in ("torch", "trl", "transformers"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(sys, "meta_path", [Nowhere(), *sys.meta_path])
    for name in ("torch", "trl", "transformers"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert main([*TOY[:2], "--method", method, "--model", "m", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert 'pip install "agentgym-ttg[train]"' in said
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()
