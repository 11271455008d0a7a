import copy
import pickle

import gymnasium as gym
import pytest
from gymnasium.vector.utils import batch_space
from hypothesis import given
from hypothesis import strategies as st

from agentgym_ttg.core import Completion, Unicode

ANY_TEXT = st.text(st.characters())


@given(ANY_TEXT)
def test_every_string_is_inside(text):
    assert text in Unicode()
    assert Completion(text) in Unicode()


@pytest.mark.parametrize("other", [None, 3, b"x", ["x"]])
def test_nothing_else_is(other):
    assert other not in Unicode()


def test_the_length_is_the_limit():
    assert "ab" in Unicode(2)
    assert "abc" not in Unicode(2)
    assert "" in Unicode(0)
    with pytest.raises(ValueError, match="max_length"):
        Unicode(-1)


def test_samples_are_members_and_follow_the_seed():
    space, twin = Unicode(5, seed=3), Unicode(5, seed=3)
    samples = [space.sample() for _ in range(50)]
    assert all(sample in space for sample in samples)
    assert samples == [twin.sample() for _ in range(50)]
    assert Unicode(0).sample() == ""


def test_equality_copy_pickle_and_json():
    space = Unicode(7)
    assert space == Unicode(7) != Unicode(8)
    assert space != gym.spaces.Discrete(3)
    assert pickle.loads(pickle.dumps(space)) == copy.deepcopy(space) == eval(repr(space))
    assert len(pickle.dumps(space)) < 10_000
    assert space.from_jsonable(space.to_jsonable(["a", "\u2028"])) == ["a", "\u2028"]


def test_it_batches():
    assert ("a", "b", "c") in batch_space(Unicode(), 3)
