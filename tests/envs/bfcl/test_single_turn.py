"""Single-turn verdicts against the package's own checker, on the published answers and on spoilt ones."""

import pytest

from agentgym_ttg.core.messages import ToolCall
from agentgym_ttg.envs.bfcl.env import _category
from agentgym_ttg.envs.bfcl.literals import ground_truth_calls
from agentgym_ttg.envs.bfcl.package import SINGLE_TURN, load_package

LANGUAGES = {"java": "Java", "javascript": "JavaScript"}
#: Published answers that the package's own checker refuses in any wording.
REFUSED = {"java": 3, "parallel_multiple": 1, "live_simple": 2, "live_multiple": 2}


def spoilt(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    return [*value, value[0]] if isinstance(value, list) and value else "none of it"


def upstream(entry, category, calls, truth):
    """What the package's checker says of these calls."""
    known = {one["name"].replace(".", "_"): one["name"] for one in entry["function"]}
    output = [{known.get(call.name, call.name): call.arguments} for call in calls]
    language = LANGUAGES.get(category, "Python")
    return load_package().ast_checker(entry["function"], output, truth, language, category, "any")["valid"]


def ours(env, task_id, calls):
    env.reset(options={"task_id": task_id})
    message = "\n".join(call.to_hermes() for call in calls) or "I cannot."
    _, reward, terminated, _, info = env.step(message)
    assert terminated
    assert reward == float(info["success"])
    return info["success"]


@pytest.mark.parametrize("category", [name for name in SINGLE_TURN if "relevance" not in name])
def test_verdicts_are_those_of_the_packages_checker(make, category):
    env = make(category)
    entries, answers = _category("v3", category)
    refused = 0
    for number, task_id in enumerate(env.tasks):
        entry, truth = entries[task_id], answers[task_id]
        right = ground_truth_calls(truth, entry["function"], LANGUAGES.get(category, "Python"))
        verdict = ours(env, task_id, right)
        assert verdict == upstream(entry, category, right, truth), task_id
        refused += not verdict
        if number % 3:
            continue
        first, *rest = right
        wrong = [[], rest, [*right, first], [ToolCall("another", first.arguments), *rest]]
        for key, value in first.arguments.items():
            wrong.append([ToolCall(first.name, {**first.arguments, key: spoilt(value)}), *rest])
            wrong.append([ToolCall(first.name, {k: v for k, v in first.arguments.items() if k != key}), *rest])
        for calls in wrong:
            assert ours(env, task_id, calls) == (bool(calls) and upstream(entry, category, calls, truth)), task_id
    assert refused == REFUSED.get(category, 0)


def test_relevance_is_whether_a_function_is_called(make):
    call = ToolCall("f", {}).to_hermes()
    for category, wins in (("irrelevance", False), ("live_irrelevance", False), ("live_relevance", True)):
        env = make(category)
        for task_id in env.tasks[::20]:
            env.reset(options={"task_id": task_id})
            assert env.step(call)[4]["success"] == wins
            env.reset(options={"task_id": task_id})
            assert env.step("There is no function for that.")[4]["success"] != wins
