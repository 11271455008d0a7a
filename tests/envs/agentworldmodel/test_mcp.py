"""The worlds behind a Model Context Protocol server: as in-process, within the same limits."""

import importlib.util

import pytest

pytest.importorskip("fastapi", reason="the extra awm is not installed")
pytest.importorskip("sqlalchemy", reason="the extra awm is not installed")

from hostile_world import CODE

from agentgym_ttg.core.errors import ConfigError, EngineError, MissingDependencyError
from agentgym_ttg.core.messages import ToolCall
from agentgym_ttg.envs.agentworldmodel.env import AgentWorldModelEnv
from agentgym_ttg.envs.agentworldmodel.sandbox import client
from agentgym_ttg.envs.agentworldmodel.sandbox.client import launcher
from agentgym_ttg.envs.agentworldmodel.sandbox.guard import Limits

needs_mcp = pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="the extra mcp is not installed")


def call(name, **arguments):
    return ToolCall("call_tool", {"tool_name": name, "arguments": arguments}).to_hermes()


MESSAGES = (
    ToolCall("list_tools").to_hermes(),
    call("show_book", book="book 1"),
    call("lend", book="book 1", member="member 1"),
    call("lend", book="book 1", member="member 2"),
    call("lend", book="book 3"),
    call("lend", book=7, member=["member 1"]),
    call("pay_fine", member="member 3", amount="two"),
    call("pay_fine", member="member 3", amount=2, tip=1),
    call("find_book", title="caf\u00e9 \u2603 \U0001f600"),
    call("no_such_tool"),
    '<tool_call>{"name": "call_tool", "arguments": {"tool_name": "lend", "arguments": [1]}}</tool_call>',
)


@needs_mcp
def test_observations_and_verdicts_are_those_of_the_in_process_transport():
    envs = [
        AgentWorldModelEnv(worlds=["library"], expert=True, transport=transport, max_steps=60)
        for transport in ("in-process", "mcp")
    ]
    for task_id in envs[0].tasks[:3]:
        begun = [env.reset(seed=0, options={"task_id": task_id}) for env in envs]
        assert begun[0] == begun[1]
        for message in MESSAGES:
            one, two = (env.step(message) for env in envs)
            assert one == two
        points = [env.snapshot() for env in envs]
        for env, point in zip(envs, points, strict=True):
            env.restore(point)
        one, two = (env.step(call("show_book", book="book 1")) for env in envs)
        assert one == two
        for env in envs:
            env.reset(seed=0, options={"task_id": task_id})
        over, action = False, envs[0]._expert_message()
        while not over:
            one, two = (env.step(action) for env in envs)
            assert one == two
            over, action = one[2], one[4]["expert_action"]
        assert one[4]["success"]
    for env in envs:
        env.close()


@needs_mcp
@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ("exits", "process ended"),
        ("quits", "SystemExit"),
        ("eats", "memory"),
        ("connects", "socket|network"),
        ("spawns", "left its process"),
        ("hangs", "no answer within"),
    ],
)
def test_limits_stay(tmp_path, tool, reason):
    database = tmp_path / "initial.db"
    database.touch()
    server = launcher().world("hostile", CODE, database, Limits(memory_mb=256), 120, "mcp")
    episode, neighbour = server.episode(database, 60), server.episode(database, 60)
    assert episode.call("good", {"number": 3, "word": "ab"}) == (200, "ababab")
    if tool == "hangs":
        episode.timeout = 0.5
    with pytest.raises(EngineError, match=reason):
        episode.call(tool, {})
    assert neighbour.call("good", {"number": 2}) == (200, "xx")
    neighbour.close()
    episode.close()


@needs_mcp
def test_the_official_client_can_speak_to_a_world():
    """The server that our own client talks to is an MCP server for others too."""
    import anyio
    import mcp.types as types
    from mcp.shared.memory import create_connected_server_and_client_session

    from agentgym_ttg.envs.agentworldmodel.sandbox.mcp_server import make_server

    class Echo:
        tools = ({"name": "echo", "description": "Echo.", "parameters": {"type": "object", "properties": {}}},)

        async def answer(self, name, arguments):
            return (200, {"got": arguments}) if name == "echo" else (400, {"detail": "no tool"})

    async def talk():
        async with create_connected_server_and_client_session(make_server(Echo())) as session:
            listed = await session.list_tools()
            good = await session.call_tool("echo", {"x": [1, "\u00e9"]})
            bad = await session.call_tool("other", {})
            return listed, good, bad

    listed, good, bad = anyio.run(talk)
    assert [tool.name for tool in listed.tools] == ["echo"]
    assert isinstance(good.content[0], types.TextContent)
    assert (good.content[0].text, good.isError, bad.isError) == ('{"got": {"x": [1, "\u00e9"]}}', False, True)


def test_without_the_package_it_is_told_which_extra(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(client.importlib.util, "find_spec", lambda name: None if name == "mcp" else real(name))
    with pytest.raises(MissingDependencyError, match=r"agentgym-ttg\[mcp\]"):
        AgentWorldModelEnv(worlds=["library"], transport="mcp")
    with pytest.raises(ConfigError, match="unknown transport 'http'"):
        AgentWorldModelEnv(worlds=["library"], transport="http")
