import pytest

pytest.importorskip("fastapi", reason="the extra awm is not installed")
pytest.importorskip("sqlalchemy", reason="the extra awm is not installed")

from hostile import CASES, messages
from hypothesis import HealthCheck, given, settings

from agentgym_ttg.core.messages import ToolCall
from agentgym_ttg.envs.agentworldmodel.env import AgentWorldModelEnv

NAMES = ["call_tool", "list_tools", "lend", "give_back", "pay_fine", "find_book", "show_member", "set_state", "eval"]
KEYS = ["tool_name", "arguments", "book", "member", "title", "amount", "state", "shelf"]


@pytest.fixture(scope="module")
def env():
    """An environment in which an episode goes on until something is taken for its answer."""
    made = AgentWorldModelEnv(worlds=["library"], max_steps=10**9)
    made.reset(seed=0)
    yield made
    made.close()


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(messages(NAMES, KEYS))
def test_hostile_messages_never_raise_and_never_score(env, message):
    if env.phase != "running":
        env.reset()
    _, reward, _, _, info = env.step(message)
    assert reward == 0.0
    assert not info["success"]


@pytest.mark.parametrize("name", ["lend", "pay_fine", "find_book"])
@settings(max_examples=max(CASES // 3, 1), deadline=None, suppress_health_check=list(HealthCheck))
@given(messages(["x"], KEYS))
def test_hostile_arguments_of_real_tools_change_nothing_to_a_success(env, name, message):
    """The message as every argument of a tool that there is."""
    if env.phase != "running":
        env.reset()
    given = dict.fromkeys(("book", "member", "title", "amount"), message)
    call = ToolCall("call_tool", {"tool_name": name, "arguments": given})
    _, reward, terminated, _, _ = env.step(call.to_hermes())
    assert (reward, terminated) == (0.0, False)
