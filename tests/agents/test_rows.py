"""From trajectories to rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_ttg.agents.rows import make_rows, trainable_tokens
from agentgym_ttg.core import Completion, PolicyError, Trajectory, Turn


def turn(prompt, ids, logprobs=None):
    said = Completion("x", token_ids=ids, logprobs=logprobs if logprobs is not None else [-0.5] * len(ids))
    return Turn((), said, tokens=len(ids), prompt_ids=tuple(prompt))


def trajectory(*turns):
    return Trajectory("e", "t", turns=list(turns), outcome="success")


def test_a_conversation_is_one_row_and_what_the_environment_said_is_masked() -> None:
    rows = make_rows(trajectory(turn([1, 2], [3, 4]), turn([1, 2, 3, 4, 5, 6], [7])))
    (row,) = rows
    assert row.prompt_ids == [1, 2]
    assert row.completion_ids == [3, 4, 5, 6, 7]
    assert row.steps.tolist() == [0, 0, -1, -1, 1]
    assert row.logprobs.tolist() == [-0.5, -0.5, 0, 0, -0.5]


def test_a_window_of_the_history_is_a_row_of_its_own() -> None:
    rows = make_rows(trajectory(turn([1, 2], [3]), turn([9, 2, 3], [4]), turn([9, 2, 3, 4, 5], [6])))
    assert [row.steps.tolist() for row in rows] == [[0], [1, -1, 2]]


def test_without_merging_each_action_is_a_row() -> None:
    rows = make_rows(trajectory(turn([1], [2]), turn([1, 2, 3], [4])), merge=False)
    assert [(row.prompt_ids, row.completion_ids) for row in rows] == [([1], [2]), ([1, 2, 3], [4])]


def test_an_empty_message_has_no_row_and_does_not_break_the_conversation() -> None:
    rows = make_rows(trajectory(turn([1], []), turn([1, 2], [3]), turn([1, 2, 3, 4], [])))
    assert [row.steps.tolist() for row in rows] == [[1]]
    assert make_rows(trajectory(turn([1], []))) == []


def test_text_without_ids_is_refused_by_name() -> None:
    with pytest.raises(PolicyError, match="turn 0 of 't'"):
        make_rows(trajectory(Turn((), Completion("hello"))))


def test_unknown_log_probabilities_are_marked() -> None:
    said = Completion("x", token_ids=[1])
    (row,) = make_rows(trajectory(Turn((), said, prompt_ids=(0,))))
    assert np.isnan(row.logprobs).all()


ids = st.lists(st.integers(0, 9), max_size=4)


@given(st.lists(st.tuples(st.booleans(), ids, ids), min_size=1, max_size=6))
def test_merging_moves_no_token(parts) -> None:
    """Both forms hold the same tokens, of the same steps, behind the same prefixes."""
    turns, before = [], [7]
    for extends, new, said in parts:
        prompt = [*before, *new] if extends else [8, *new]
        turns.append(turn(prompt, said))
        before = [*prompt, *said]
    played = trajectory(*turns)

    def seen(rows):
        return sorted(
            (int(row.steps[k]), k_id, tuple(row.prompt_ids + row.completion_ids[:k]))
            for row in rows
            for k, k_id in enumerate(row.completion_ids)
            if row.steps[k] >= 0
        )

    assert seen(make_rows(played)) == seen(make_rows(played, merge=False))
    assert sum((row.steps >= 0).sum() for row in make_rows(played)) == trainable_tokens(played).sum()
