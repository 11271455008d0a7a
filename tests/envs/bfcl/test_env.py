import json

import pytest

pytest.importorskip("mpmath", reason="the extra bfcl is not installed")
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_ttg.core.errors import ConfigError, DataError
from agentgym_ttg.data.bfcl_install import bfcl_folder, install_bfcl
from agentgym_ttg.envs.bfcl.env import STEPS_PER_TURN, BFCLEnv
from agentgym_ttg.envs.bfcl.package import MULTI_TURN, SINGLE_TURN

installed = pytest.mark.skipif(
    not (bfcl_folder() / "bfcl_eval").is_dir(), reason="BFCL is not installed (agentgym-ttg data install bfcl)"
)


def play(env, task_id, change=lambda message: message):
    _, info = env.reset(options={"task_id": task_id})
    over = False
    while not over:
        _, _, terminated, truncated, info = env.step(change(info["expert_action"]))
        over = terminated or truncated
    return info


@pytest.fixture(scope="module")
def env():
    made = BFCLEnv(expert=True)
    yield made
    made.close()


@installed
@pytest.mark.parametrize("category", MULTI_TURN)
def test_the_ground_truth_of_dialogues_is_valid_and_nothing_is_not(env, category):
    for task_id in [one for one in env.tasks if one.rpartition("_")[0] == category][::20]:
        assert play(env, task_id)["success"], task_id
        assert not play(env, task_id, lambda message: "Done.")["success"], task_id


@installed
@pytest.mark.parametrize("category", [one for one in SINGLE_TURN if one not in ("java", "javascript")])
def test_the_ground_truth_of_single_turns_is_valid(env, category):
    only = BFCLEnv(expert=True, categories=[category])
    wins = [play(only, task_id)["success"] for task_id in only.tasks[::10]]
    assert sum(wins) >= 0.9 * len(wins)


@installed
def test_too_many_steps_in_a_turn_fail_the_task(env):
    env.reset(options={"task_id": "multi_turn_base_0"})
    for number in range(STEPS_PER_TURN + 1):
        _, _, terminated, _, info = env.step('<tool_call>{"name": "pwd", "arguments": {}}</tool_call>')
        assert terminated == (number == STEPS_PER_TURN)
    assert info["metrics"]["force_quit"] == 1.0
    assert not info["success"]


@installed
def test_held_back_functions_come_with_their_turn(env):
    task = "multi_turn_miss_func_0"
    before = env.reset(options={"task_id": task})[1]["tools"]
    counts = [len(before)]
    over = False
    while not over:
        _, _, over, _, info = env.step("Done.")
        counts.append(len(info["tools"]))
    assert max(counts) == counts[0] + 1


@installed
def test_nothing_leaks_between_episodes(env):
    play(env, "multi_turn_base_0")
    assert not [key for key in vars(env.package.multi_turn_utils) if key.startswith("agentgym_")]


@installed
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(max_size=60)
    | st.builds(
        lambda name, arguments: "<tool_call>" + json.dumps({"name": name, "arguments": arguments}) + "</tool_call>",
        st.sampled_from(["cd", "exit", "__import__", "breakpoint", "a.b", "mv"]),
        st.dictionaries(st.text(max_size=8), st.none() | st.text(max_size=20) | st.integers(), max_size=3),
    )
)
def test_hostile_messages_never_raise_and_never_score(env, message):
    env.reset(options={"task_id": "multi_turn_base_0"})
    _, reward, _, _, info = env.step(message)
    assert reward == 0.0
    assert not info["success"]


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
