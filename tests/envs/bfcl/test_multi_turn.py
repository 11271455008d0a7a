"""Dialogues: the ground truth is valid; without one of its calls, or with another argument, it is not."""

import os

import pytest

from agentgym_ttg.core.messages import ToolCall
from agentgym_ttg.envs.bfcl.env import STEPS_PER_TURN, _category
from agentgym_ttg.envs.bfcl.package import MULTI_TURN

#: One dialogue in so many is judged; ``AGENTGYM_TTG_BFCL_EVERY=1`` judges all.
EVERY = int(os.environ.get("AGENTGYM_TTG_BFCL_EVERY", "10"))


def play(env, task_id, turns):
    """Play the calls of each turn, one message a call; return success and what each call gave."""
    env.reset(options={"task_id": task_id})
    given = []
    for calls in turns:
        for message in [calls] if len(calls) > STEPS_PER_TURN else [[call] for call in calls]:
            info = env.step("\n".join(call.to_hermes() for call in message))[4]
            given += [message["content"] for message in info["messages"]]
        _, _, terminated, _, info = env.step("Done.")
    assert terminated
    return info["success"], given


def truth_of(env, task_id):
    env.reset(options={"task_id": task_id})
    return [list(calls) for calls in env._solution()]


def replaced(turns, position, calls):
    """The turns with the call at a position, counted over all turns, replaced by others."""
    count, out = 0, []
    for turn in turns:
        out.append([])
        for call in turn:
            out[-1] += calls if count == position else [call]
            count += 1
    return out


def other(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    return f"{value}x" if isinstance(value, str) else "x"


def changes(turns):
    """Every way to change one argument: the position of the call, and the changed call."""
    for position, call in enumerate(call for turn in turns for call in turn):
        for key, value in call.arguments.items():
            yield position, ToolCall(call.name, {**call.arguments, key: other(value)})


def judged(env, task_id):
    """Check one dialogue; return whether a dropped call and a changed argument were found that matter.

    What matters is that the answer which the call gave is then given nowhere.
    """
    turns = truth_of(env, task_id)
    success, given = play(env, task_id, turns)
    assert success, task_id

    def matters(position, calls):
        success, then = play(env, task_id, replaced(turns, position, calls))
        missing = given[position] not in then
        assert not (missing and success), (task_id, position, calls)
        return missing

    return (
        any(matters(position, []) for position in range(len(given))),
        any(matters(position, [call]) for position, call in changes(turns)),
    )


@pytest.mark.parametrize("category", MULTI_TURN)
def test_ground_truth_is_valid_and_less_or_other_is_not(make, category):
    env = make(category)
    found = [judged(env, task_id) for task_id in env.tasks[::EVERY]]
    dropped, changed = (sum(column) / len(found) for column in zip(*found, strict=True))
    assert dropped == 1
    assert changed >= 0.9  # in a few dialogues no argument matters to any answer


def test_the_dialogue_with_a_turn_too_many_is_mended(make):
    env = make("multi_turn_base")
    task = "multi_turn_base_154"
    entries, answers = _category("v3", "multi_turn_base")
    assert len(answers[task]) == len(entries[task]["question"]) == 5
    assert play(env, task, truth_of(env, task))[0]
    turns = truth_of(env, task)
    late = [*turns[:1], turns[1][:1], turns[2] + turns[1][1:], *turns[3:]]  # asked for in one turn, done in the next
    assert not play(env, task, late)[0]


def test_a_call_of_no_function_is_an_answer_that_does_nothing(make):
    env = make("multi_turn_base")
    task = "multi_turn_base_0"
    env.reset(options={"task_id": task})
    observation = env.step(ToolCall("__import__", {"name": "os"}).to_hermes())[0]
    assert "not defined" in observation
    turns = truth_of(env, task)
    unknown = ToolCall("no_such_thing", {})
    assert play(env, task, [[*calls, unknown] for calls in turns])[0]


def test_endless_work_is_refused(make):
    env = make("multi_turn_base")
    entries, _ = _category("v3", "multi_turn_base")
    task = next(key for key, entry in entries.items() if "MathAPI" in entry["involved_classes"])
    env.reset(options={"task_id": task})
    for name, arguments in (
        ("power", {"base": 9, "exponent": 10**10}),
        ("logarithm", {"value": 2, "base": 10, "precision": 10**9}),
        ("square_root", {"number": 2, "precision": 10**9}),
        ("round_number", {"number": 5, "decimal_places": -(10**9)}),
    ):
        observation, _, terminated, _, info = env.step(ToolCall(name, arguments).to_hermes())
        assert "Error during execution" in observation
        assert not terminated
        assert not info["action_valid"]
    assert "1024" in env.step(ToolCall("power", {"base": 2, "exponent": 10}).to_hermes())[0]


def test_precision_set_in_an_episode_does_not_stay(make):
    import decimal

    import mpmath

    env = make("multi_turn_base")
    entries, _ = _category("v3", "multi_turn_base")
    task = next(key for key, entry in entries.items() if "MathAPI" in entry["involved_classes"])
    before = (mpmath.mp.dps, decimal.getcontext().prec)
    env.reset(options={"task_id": task})
    env.step(ToolCall("logarithm", {"value": 2.0, "base": 10.0, "precision": 3}).to_hermes())
    env.step(ToolCall("square_root", {"number": 2.0, "precision": 4}).to_hermes())
    assert (mpmath.mp.dps, decimal.getcontext().prec) == before
