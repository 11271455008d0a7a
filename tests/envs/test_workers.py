"""The vector environment in worker processes: nothing but the speed may differ, and no death may spread."""

import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import gymnasium as gym
import pytest
import toy_envs
from toy_envs import CountingEnv

from agentgym_ttg import from_text_env, make_vector_env
from agentgym_ttg.core import Completion, ConfigError, EngineError, UnknownTaskError
from agentgym_ttg.envs.vector import TextVectorEnv

FAR = "count/train/000004"  # count to 7
HANG, EXIT = "count/train/000668", "count/train/000667"


def make(num_envs=4, workers=2, **kwargs):
    return make_vector_env(toy_envs.COUNTING, num_envs, workers=workers, **kwargs)


@pytest.fixture(scope="module")
def shared():
    """Two workers with two slots each: slots 0 and 2 live in one, 1 and 3 in the other."""
    envs = make(cursed=True, step_timeout=3.0, reset_timeout=60.0)
    yield envs
    envs.close()


def begin(envs, task_id=FAR):
    return envs.reset_slots({slot: {"seed": slot, "task_id": task_id} for slot in range(envs.num_envs)})


def pids(envs):
    return {slot: int(out.observation) for slot, out in envs.step_slots(dict.fromkeys(envs.live_slots, "pid")).items()}


def gone(pid):
    """Whether a process has ended, or ends within a few seconds, and was reaped."""
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_processes_give_what_one_process_gives(shared):
    local = make(workers=0, cursed=True)
    play = [
        dict.fromkeys(range(4), "roll"),
        {0: "up", 1: Completion("dance", token_ids=[1, 2, 3]), 3: "tool"},
        {2: "\ud800\x00\u2028", 1: "", 0: "silent"},
        {0: "win", 1: "lose", 2: "cut", 3: "boom"},
    ]
    assert begin(shared) == begin(local)
    for actions in play:
        assert shared.step_slots(actions) == local.step_slots(actions)
    assert shared.tasks == local.tasks
    for envs in (shared, local):
        envs.reset(seed=3, options={"task_id": FAR})
    a, b = shared.step(["roll", "up", "boom", "dance"]), local.step(["roll", "up", "boom", "dance"])
    assert a[0] == b[0]
    for x, y in zip(a[1:4], b[1:4], strict=True):
        assert x.tolist() == y.tolist()
    assert {key: value.tolist() for key, value in a[4].items()} == {key: value.tolist() for key, value in b[4].items()}


def test_strings_of_any_length_go_both_ways(shared):
    begin(shared)
    message = Completion("x" * 3_000_000, token_ids=[1])
    out = shared.step_slots({0: "big", 1: message, 2: "big", 3: message})
    assert out[0].observation == out[2].observation == "\u2028x" * 500_000
    assert out[1].observation == "What?"


def test_slots_are_spread_over_the_workers(shared):
    begin(shared)
    where = pids(shared)
    assert where[0] == where[2] != where[1] == where[3]
    assert os.getpid() not in where.values()


@pytest.mark.parametrize("action", ["die", "hang"])
def test_a_worker_that_dies_or_hangs_ends_the_episodes_it_holds_and_no_others(shared, action):
    begin(shared)
    before = pids(shared)
    out = shared.step_slots({0: "up", 1: Completion(action, token_ids=[1, 2]), 3: "up"})
    assert out[0].observation.startswith("Count 1")
    assert not out[0].error
    for slot in (1, 3):
        assert ("exit code 3" if action == "die" else "no answer within 3 seconds") in out[slot].error
        assert out[slot].truncated
        assert out[slot].info["task_id"] == FAR
        assert not out[slot].info["success"]
    assert out[1].info["assistant_tokens"] == 2
    assert gone(before[1])
    assert shared.live_slots == [0, 2]
    assert shared.step_slots({0: "up", 2: "up"})[0].observation.startswith("Count 2")
    shared.reset_slots({slot: {"task_id": FAR} for slot in (1, 3)})  # the worker was started anew
    after = pids(shared)
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1] == after[3] != before[1]


def test_the_step_that_came_back_before_its_worker_died_is_kept(shared):
    begin(shared)
    out = shared.step_slots({1: "up", 3: "die"})  # the worker takes slot 1 first
    assert out[1].observation.startswith("Count 1")
    assert out[1].truncated
    assert "exit code 3" in out[1].error
    begin(shared)
    assert shared.step_slots({1: "win", 3: "die"})[1].error == ""  # it was over before


def test_an_episode_that_was_not_asked_learns_of_the_death_at_its_next_step(shared):
    begin(shared)
    assert "exit code 3" in shared.step_slots({1: "die"})[1].error
    assert shared.live_slots == [0, 2, 3]
    with pytest.raises(EngineError, match="exit code 3"):
        shared.snapshot_slot(3)
    out = shared.step_slots({0: "up", 3: "up"})
    assert "exit code 3" in out[3].error
    assert not out[0].error


def test_a_worker_that_is_killed_between_two_steps(shared):
    begin(shared)
    os.kill(pids(shared)[1], signal.SIGKILL)
    out = shared.step_slots(dict.fromkeys(range(4), "up"))
    assert [bool(out[slot].error) for slot in range(4)] == [False, True, False, True]
    assert "SIGKILL" in out[1].error or "died" in out[1].error
    begin(shared)
    assert not any(outcome.error for outcome in shared.step_slots(dict.fromkeys(range(4), "up")).values())


def test_an_answer_that_cannot_be_sent_ends_its_own_episode(shared):
    begin(shared)
    before = pids(shared)
    out = shared.step_slots({0: "up", 1: "unpicklable", 3: "up"})
    assert "cannot be sent between processes" in out[1].error
    assert not out[0].error
    assert not out[3].error
    shared.reset_slots({1: {"task_id": FAR}})
    assert pids(shared) == before


def test_a_reset_that_kills_its_worker(shared):
    out = shared.reset_slots({0: {"task_id": FAR}, 1: {"task_id": EXIT}})
    assert "exit code 7" in out[1][1]["error"]
    assert "error" not in out[0][1]
    assert "exit code 7" in shared.step_slots({1: "up"})[1].error
    begin(shared)
    assert len(shared.live_slots) == 4


def test_errors_of_the_caller_come_back_as_they_are(shared):
    with pytest.raises(UnknownTaskError, match="nearest") as caught:
        shared.reset_slots({0: {"task_id": "count/train/0001"}})
    assert caught.value.task_id == "count/train/0001"


@pytest.mark.parametrize("own", [False, True])
def test_branches_go_from_process_to_process(own):
    envs = make(2, own_snapshots=own)
    envs.reset_slots({0: {"seed": 1, "task_id": FAR}})
    envs.step_slots({0: "roll"})
    point = envs.snapshot_slot(0)
    original = envs.step_slots({0: "roll"})[0]
    envs.restore_slot(1, point)
    assert envs.step_slots({1: "roll"})[1] == original
    envs.close()


def test_a_reset_that_hangs_is_given_up():
    envs = make(2, cursed=True, reset_timeout=4.0)
    out = envs.reset_slots({0: {"task_id": FAR}, 1: {"task_id": HANG}})
    assert "no answer within 4 seconds" in out[1][1]["error"]
    assert envs.step_slots({0: "up"})[0].observation.startswith("Count 1")
    envs.close()


def test_more_workers_than_slots_are_not_started():
    before = set(multiprocessing.active_children())
    envs = make(1, workers=3)
    assert envs.workers == len(set(multiprocessing.active_children()) - before) == 1
    envs.close()


def test_closing_leaves_no_process_behind(tmp_path):
    envs = make(2)
    begin(envs)
    processes = pids(envs).values()
    envs.close()
    envs.close()
    assert all(gone(pid) for pid in processes)


def test_forgetting_it_leaves_no_process_behind():
    envs = make(2)
    begin(envs)
    processes = pids(envs).values()
    del envs
    assert all(gone(pid) for pid in processes)


def test_a_hanging_worker_does_not_hold_up_the_closing():
    envs = make(2, step_timeout=0.5)
    begin(envs)
    envs.step_slots({0: "hang"})
    envs.close()
    assert not [child for child in multiprocessing.active_children() if child.exitcode is not None]


def test_settings_that_no_environment_takes_are_raised_in_the_parent():
    with pytest.raises(ConfigError, match="did you mean 'train'"):
        make(2, split="trian")
    with pytest.raises(EngineError, match="unexpected keyword argument 'colour'"):
        make(2, colour="red")


def test_a_worker_that_dies_while_it_starts_is_said():
    with pytest.raises(EngineError, match=r"died while it started \(exit code 5\).*__main__"):
        TextVectorEnv(toy_envs.make_dying, 1, workers=1)


def test_a_factory_that_cannot_be_sent_is_refused():
    with pytest.raises(ConfigError, match="cannot be sent to a worker process"):
        TextVectorEnv(lambda: CountingEnv(), 1, workers=1)


def test_lifted_environments_go_into_workers():
    factory = functools.partial(
        from_text_env, toy_envs.make_cartpole, observe=str, actions=["left", "right"], max_steps=5
    )
    envs = TextVectorEnv(factory, 2, workers=1)
    local = TextVectorEnv(factory, 2)
    assert envs.reset(seed=1)[0] == local.reset(seed=1)[0]
    assert envs.step(["left", "right"])[0] == local.step(["left", "right"])[0]
    envs.close()
    local.close()


def test_registered_environments_need_not_be_registered_in_the_worker():
    spec = gym.envs.registration.EnvSpec("nowhere/Counting-v0", entry_point="toy_envs:CountingEnv")
    envs = make_vector_env(spec, 1, workers=1)
    assert envs.reset(seed=1)[0] == make(1, workers=0).reset(seed=1)[0]
    envs.close()


SCRIPT = textwrap.dedent(
    """
    import os, sys
    sys.path.insert(0, {support!r})
    import toy_envs
    from agentgym_ttg import make_vector_env
    if __name__ == "__main__":
        envs = make_vector_env(toy_envs.COUNTING, 2, workers=2)
        envs.reset(seed=0, options={{"task_id": "count/train/000004"}})
        try:
            print(*envs.step(["pid", "pid"])[0], flush=True)
            envs.step(["hang", "up"])
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            error = envs.step(["up", "up"])[4]["error"][0]
            print("KeyboardInterrupt" in error, flush=True)
    """
)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(support=os.path.dirname(toy_envs.__file__)))
    process = subprocess.Popen(
        [sys.executable, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert process.stdout.readline() == "hanging\n"
    yield process, workers
    if process.poll() is None:
        process.kill()
    process.communicate()


def test_ctrl_c_is_the_parents_business(script):
    process, workers = script
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does: to the whole group
    out, err = process.communicate(timeout=60)
    assert out.split() == ["interrupted", "True"]
    assert err == ""
    assert process.returncode == 0
    assert all(gone(pid) for pid in workers)


def test_workers_end_with_a_parent_that_is_killed_even_while_they_hang(script):
    process, workers = script
    process.kill()
    process.wait()
    assert all(gone(pid) for pid in workers)
