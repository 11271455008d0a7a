import pytest

from agentgym_ttg.core import Completion, Message, TrajectoryBuilder


def info(content="obs", role="user", **more):
    base = {
        "task_id": "t1",
        "task_type": "fetch",
        "success": False,
        "assistant_tokens": 2,
        "action_valid": True,
        "messages": [{"role": role, "content": content}],
        "tools": [],
        "anchor": f"at {content}",
        "metrics": {},
    }
    return base | more


def begin(**more):
    return TrajectoryBuilder(
        env_id="toy",
        policy="me",
        observation="first",
        info=info("first", assistant_tokens=0, **more),
        metadata={"seed": 3},
    )


def add(builder, said="go", *, after=None, terminated=False, truncated=False, reward=0.0, error=""):
    after = after or info()
    builder.add(
        said,
        observation=after["messages"][0]["content"] if after.get("messages") else "",
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        info=after,
        error=error,
    )


def test_a_turn_holds_what_was_new_before_the_decision_and_what_came_after():
    builder = begin()
    add(builder, Completion("go", token_ids=[1, 2], prompt_ids=[7, 8]), after=info("second", "tool"), reward=0.5)
    add(builder, "look", after=info("third", success=True, metrics={"ups": 2.0}), terminated=True, reward=1.0)
    one = builder.finish()
    assert [turn.messages for turn in one.turns] == [(Message("user", "first"),), (Message("tool", "second"),)]
    assert [turn.observation for turn in one.turns] == ["second", "third"]
    assert one.anchors == ["at first", "at second"]
    assert one.token_counts.tolist() == [2, 2]
    assert one.turns[0].prompt_ids == (7, 8)
    assert one.turns[0].completion.token_ids == (1, 2)
    assert type(one.turns[1].completion) is Completion
    assert one.total_reward == 1.5
    assert one.metadata == {"seed": 3, "task_type": "fetch", "metrics": {"ups": 2.0}}
    assert (one.env_id, one.task_id, one.policy, len(one)) == ("toy", "t1", "me", 2)


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        ({"terminated": True, "after": info(success=True)}, "success"),
        ({"terminated": True}, "failure"),
        ({"truncated": True}, "truncated"),
        ({"truncated": True, "after": info(success=True)}, "success"),
        ({"truncated": True, "error": "boom"}, "error"),
        ({"terminated": True, "after": info(success=True), "error": "boom"}, "error"),
    ],
)
def test_outcomes(ending, outcome):
    builder = begin()
    assert not builder.finished
    add(builder, **ending)
    assert builder.finished
    one = builder.finish()
    assert one.outcome == outcome
    assert one.success == (outcome == "success")
    assert one.metadata.get("error", "") == ending.get("error", "")
    assert "unfinished" not in one.metadata
    with pytest.raises(ValueError, match="after its end"):
        add(builder)


def test_an_episode_that_is_not_over_is_truncated_and_says_so():
    builder = begin()
    add(builder)
    one = builder.finish()
    assert (one.outcome, one.metadata["unfinished"]) == ("truncated", True)


def test_a_failure_outside_of_a_step_needs_no_turn():
    builder = begin()
    builder.fail("the server is gone")
    one = builder.finish()
    assert (one.outcome, len(one), one.metadata["error"]) == ("error", 0, "the server is gone")
    with pytest.raises(ValueError, match="after its end"):
        builder.fail("again")


def test_a_copy_branches():
    builder = begin()
    add(builder)
    branch = builder.copy()
    add(branch, "left", terminated=True)
    add(builder, "right", truncated=True)
    assert [turn.completion for turn in branch.finish().turns] == ["go", "left"]
    assert [turn.completion for turn in builder.finish().turns] == ["go", "right"]


def test_tools_that_come_later_stand_with_their_turn():
    first, more = [{"name": "a"}], [{"name": "a"}, {"name": "b"}]
    builder = begin(tools=first)
    add(builder, after=info(tools=more))
    add(builder, after=info(tools=more), terminated=True)
    one = builder.finish()
    assert one.tools == first
    assert [turn.metadata for turn in one.turns] == [{}, {"tools": more}]


def test_the_broken_step_counts_its_sampled_tokens():
    builder = begin()
    builder.add(
        Completion("go", token_ids=[1, 2, 3]),
        observation="",
        reward=0.0,
        terminated=False,
        truncated=True,
        info={},
        error="boom",
    )
    turn = builder.finish().turns[0]
    assert (turn.tokens, turn.valid) == (3, False)
