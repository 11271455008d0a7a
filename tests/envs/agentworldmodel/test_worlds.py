import shutil
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra awm is not installed")
pytest.importorskip("sqlalchemy", reason="the extra awm is not installed")

from agentgym_ttg.core.errors import DataError, EpisodeError
from agentgym_ttg.core.messages import ToolCall
from agentgym_ttg.envs.agentworldmodel.authoring import WORLDS, author_records, builtin_names
from agentgym_ttg.envs.agentworldmodel.env import AgentWorldModelEnv
from agentgym_ttg.envs.agentworldmodel.loading import initial_database, load_worlds
from agentgym_ttg.envs.agentworldmodel.records import read_records, worlds_from_records, write_records
from agentgym_ttg.envs.agentworldmodel.sandbox.client import launcher
from agentgym_ttg.envs.agentworldmodel.sandbox.guard import Limits

LIMITS = Limits()


def verdict(world, task, calls, answer):
    server = launcher().world(world.name, world.code, initial_database(world), LIMITS, 120)
    episode = server.episode(initial_database(world), 60)
    try:
        for call in calls:
            episode.call(call.name, call.arguments)
        episode.peer.end()
        shutil.copyfile(initial_database(world), Path(episode.folder) / "initial.db")
        return launcher().verdict(task.verifier, episode.folder, answer, LIMITS, 60)
    finally:
        episode.close()


def test_there_are_enough_worlds_and_tasks():
    worlds = load_worlds()
    assert len(worlds) >= 8
    for world in worlds.values():
        assert len({task.instruction for task in world.tasks}) >= 10
        assert all(2 <= len(task.solution) <= 8 for task in world.tasks)
        assert all(len(task.near_misses) >= 2 for task in world.tasks)


@pytest.mark.parametrize("name", builtin_names())
def test_verifiers_accept_the_solution_and_refuse_the_rest(name):
    world = load_worlds()[name]
    server = launcher().world(world.name, world.code, initial_database(world), LIMITS, 120)
    assert len(server.tools) >= 8
    templates = {tuple(call.name for call in task.solution): task for task in world.tasks}
    for task in templates.values():
        assert verdict(world, task, task.solution, task.answer) == "complete", task.instruction
        assert verdict(world, task, (), "") == "others", task.instruction
        for calls, answer in task.near_misses:
            assert verdict(world, task, calls, answer) == "others", (task.instruction, calls)


def test_the_published_files_give_the_same_worlds(tmp_path):
    records = author_records(WORLDS / "library")
    write_records(records, tmp_path)
    assert worlds_from_records(read_records(tmp_path)) == {"library": load_worlds()["library"]}
    (tmp_path / "gen_envs.jsonl").unlink()
    with pytest.raises(DataError, match=r"expected gen_envs\.jsonl"):
        AgentWorldModelEnv(data_dir=tmp_path)


def test_the_expert_wins_and_branches():
    env = AgentWorldModelEnv(split="test", worlds=["library"], expert=True)
    _, info = env.reset(seed=0)
    env.step(info["admissible_actions"][1])
    point = env.snapshot()
    for _ in range(2):
        env.restore(point)
        over, action = False, env._expert_message()
        while not over:
            _, reward, over, _, info = env.step(action)
            action = info["expert_action"]
    assert reward in (0.0, 1.0)
    env.reset(seed=0)
    _, info = env.reset(seed=0)
    over = False
    while not over:
        _, reward, over, _, info = env.step(info["expert_action"])
    assert (reward, info["success"]) == (1.0, True)
    with pytest.raises(EpisodeError):
        env.step("more")
    env.close()


def test_errors_say_what_to_do():
    env = AgentWorldModelEnv(worlds=["library"])
    env.reset(seed=0)
    assert "lend(book: string, member: string)" in env.step(ToolCall("list_tools").to_hermes())[0]
    wrong = {"tool_name": "lend", "arguments": {"book": "book 99", "member": "member 1"}}
    for call, expected in (
        (ToolCall("lend", {}), "call it as call_tool"),
        (ToolCall("call_tool", {"arguments": {}}), 'needs "tool_name"'),
        (ToolCall("call_tool", {"tool_name": "fly", "arguments": {}}), "the tools are find_book"),
        (ToolCall("call_tool", wrong), "there is no book called 'book 99'"),
        (ToolCall("call_tool", {"tool_name": "lend", "arguments": {"book": "book 1"}}), "argument 'member'"),
    ):
        observation, reward, terminated, _, info = env.step(call.to_hermes())
        assert expected in observation
        assert (reward, terminated, info["action_valid"]) == (0.0, False, False)
    env.close()
