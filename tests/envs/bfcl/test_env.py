import subprocess
import sys

import pytest
from hostile import CASES, messages
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_ttg.core.errors import ConfigError, DataError
from agentgym_ttg.data.bfcl_install import bfcl_folder, install_bfcl
from agentgym_ttg.envs.bfcl.env import STEPS_PER_TURN, BFCLEnv


def play(env, task_id):
    _, info = env.reset(options={"task_id": task_id})
    over = False
    while not over:
        _, _, terminated, truncated, info = env.step(info["expert_action"])
        over = terminated or truncated
    return info


@pytest.fixture(scope="module")
def env(make):
    return make()


@pytest.mark.parametrize("category", ["multi_turn_base", "multi_turn_long_context", "simple", "java", "live_parallel"])
def test_the_expert_wins_and_saying_nothing_does_not(env, category):
    for task_id in [one for one in env.tasks if one.startswith(category)][:8]:
        info = play(env, task_id)
        assert info["success"], task_id
        assert info["task_type"] == category
        env.reset(options={"task_id": task_id})
        over = False
        while not over:
            _, reward, over, _, info = env.step("Done.")
        assert (reward, info["success"]) == (0.0, False)


def test_too_many_steps_in_a_turn_fail_the_task(env):
    env.reset(options={"task_id": "multi_turn_base_0"})
    for number in range(STEPS_PER_TURN + 1):
        _, _, terminated, _, info = env.step('<tool_call>{"name": "pwd", "arguments": {}}</tool_call>')
        assert terminated == (number == STEPS_PER_TURN)
    assert info["metrics"]["force_quit"] == 1.0
    assert not info["success"]


def test_held_back_functions_come_with_their_turn(env):
    task = "multi_turn_miss_func_0"
    before = env.reset(options={"task_id": task})[1]["tools"]
    counts = [len(before)]
    over = False
    while not over:
        _, _, over, _, info = env.step("Done.")
        counts.append(len(info["tools"]))
    assert max(counts) == counts[0] + 1


def test_nothing_leaks_between_episodes(env):
    play(env, "multi_turn_base_0")
    assert not [key for key in vars(env.package.multi_turn_utils) if key.startswith("agentgym_")]


def test_episodes_in_two_environments_do_not_meet(make):
    call = '<tool_call>{"name": "mkdir", "arguments": {"dir_name": "mine"}}</tool_call>'
    look = '<tool_call>{"name": "ls", "arguments": {}}</tool_call>'
    one, two = make("multi_turn_base"), make("multi_turn_base")
    for env in (one, two):
        env.reset(options={"task_id": "multi_turn_base_0"})
    one.step(call)
    assert "mine" in one.step(look)[0]
    assert "mine" not in two.step(look)[0]
    one.reset(options={"task_id": "multi_turn_base_0"})
    assert "mine" not in one.step(look)[0]


HOSTILE = ["multi_turn_base_0", "multi_turn_base_100", "multi_turn_miss_func_51", "simple_0", "java_1", "javascript_1"]
HOSTILE += ["parallel_3", "live_multiple_0-0-0"]
NAMES = ["cd", "mv", "echo", "cp", "power", "logarithm", "multiply", "exit", "eval", "__import__", "breakpoint", "a.b"]
KEYS = ["folder", "file_name", "content", "source", "destination", "base", "exponent", "precision", "a", "b", "self"]


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(HOSTILE), st.lists(messages(NAMES, KEYS), min_size=1, max_size=3))
def test_hostile_messages_never_raise_and_never_score(env, task_id, said):
    if task_id not in env.tasks:
        task_id = HOSTILE[0]
    env.reset(options={"task_id": task_id})
    over = False
    for message in said:
        if not over:
            _, reward, over, _, info = env.step(message)
            assert reward == 0.0
            assert not info["success"]


def test_a_folder_moved_into_itself_is_judged(env):
    env.reset(options={"task_id": "multi_turn_base_0"})
    for name, arguments in (
        ("mkdir", '{"dir_name": "d"}'),
        ("mv", '{"source": "d", "destination": "d"}'),
        ("find", '{"path": ".", "name": "d"}'),
        ("du", "{}"),
    ):
        env.step(f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>')
    over = False
    while not over:
        _, reward, over, _, _ = env.step("Done.")
    assert reward == 0.0


V4 = """
from agentgym_ttg.envs.bfcl.env import BFCLEnv
env = BFCLEnv(version="v4", expert=True)
won = 0
for task_id in env.tasks[::20]:
    _, info = env.reset(options={"task_id": task_id})
    over = False
    while not over:
        _, _, over, _, info = env.step(info["expert_action"])
    won += info["success"]
print(len(env.tasks), won)
"""


def test_the_dialogues_of_v4_play_in_a_process_of_their_own():
    if not (bfcl_folder("v4") / "bfcl_eval").is_dir():
        pytest.skip("BFCL v4 is not installed (agentgym-ttg data install bfcl --version v4)")
    done = subprocess.run([sys.executable, "-c", V4], capture_output=True, text=True, timeout=250)
    assert done.stdout.split() == ["800", "40"], done.stderr


def test_what_there_is_not_is_told(installed):
    with pytest.raises(ConfigError, match="unknown BFCL v3 category"):
        BFCLEnv(categories=["web_search"])
    with pytest.raises(ConfigError, match="unknown BFCL version"):
        BFCLEnv(version="v9")


def test_installing_refuses_another_wheel(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTGYM_TTG_CACHE", str(tmp_path / "cache"))
    wheel = tmp_path / "bfcl.whl"
    wheel.write_bytes(b"not it")
    with pytest.raises(DataError, match="not the pinned wheel"):
        install_bfcl(wheel=wheel)
    with pytest.raises(ConfigError, match="unknown BFCL version"):
        install_bfcl("v9")
    with pytest.raises(DataError, match="agentgym-ttg data install bfcl"):
        _not_installed()


def _not_installed():
    from agentgym_ttg.envs.bfcl import package

    kept, package._LOADED[:] = list(package._LOADED), []
    try:
        package.load_package()
    finally:
        package._LOADED[:] = kept
