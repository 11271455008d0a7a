import gymnasium as gym
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_ttg import from_text_env, make_vector_env
from agentgym_ttg.core import ConfigError, EngineError, UnknownTaskError
from agentgym_ttg.envs import INFO_TYPES, MultiTurnEnv


class Parrot(gym.Env):
    """A foreign environment: text in, text out, its own ideas about everything else."""

    observation_space = gym.spaces.Text(1000)
    action_space = gym.spaces.Text(1000)

    def __init__(self):
        self.closed = 0
        self.word = ""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed = seed
        self.word = "".join(self.np_random.choice(list("abc"), 5))
        self.steps = 0
        return f"Say {self.word}!", {"admissible_commands": ["say", "shout"]}

    def step(self, action):
        self.steps += 1
        if action == "fly":
            raise RuntimeError("parrots of this kind do not")
        if action == "number":
            return 3, 0, False, False, {}
        right = action == self.word
        heard = "".join(self.np_random.permutation(list(action))) if not right else "Right."
        return heard, float(right), right or action == "quit", self.steps >= 4, {"heard": action}

    def close(self):
        self.closed += 1


def lifted(**kwargs):
    return from_text_env(Parrot(), env_id="zoo/Parrot", **kwargs)


def test_it_is_one_of_ours():
    env = lifted()
    assert isinstance(env, MultiTurnEnv)
    observation, info = env.reset(seed=0)
    assert observation.startswith("Say ")
    assert [type(info[key]) for key in INFO_TYPES] == list(INFO_TYPES.values())
    assert info["admissible_actions"] == ["say", "shout"]
    assert env.tasks.source == "zoo/Parrot"
    word = env.foreign.word
    _, reward, terminated, truncated, info = env.step(word)
    assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
    assert info["assistant_tokens"] == len(env.tokenizer.encode(word))


def test_tasks_are_seeds_and_splits_do_not_overlap():
    env = lifted()
    env.reset(options={"task_id": "seed-000017"})
    assert env.foreign.seed == 17
    test = lifted(split="test")
    test.reset(options={"task_id": "test-seed-000017"})
    assert test.foreign.seed == 1_000_017
    for task_id in ("test-seed-000017", "seed-17", "seed-1000000"):
        with pytest.raises(UnknownTaskError):
            env.reset(options={"task_id": task_id})
    assert env.reset(options={"task_id": "seed-000017"})[0] == env.reset(options={"task_id": "seed-000017"})[0]


def test_termination_without_reward_is_a_failure_and_truncation_is_neither():
    env = lifted()
    env.reset(seed=0)
    assert env.step("quit")[2:4] == (True, False)
    env.reset(seed=0)
    for _ in range(3):
        assert env.step("hello")[2:4] == (False, False)
    _, _, terminated, truncated, info = env.step("hello")
    assert (terminated, truncated, info["success"]) == (False, True, False)


def test_success_by_ones_own_measure():
    env = lifted(success=lambda total, terminated, info: info["heard"] == "quit")
    env.reset(seed=0)
    assert env.step("quit")[4]["success"]


def test_our_limits_hold_as_well():
    env = lifted(max_steps=2)
    env.reset(seed=0)
    env.step("hello")
    assert env.step("hello")[3]
    assert from_text_env(gym.make("CartPole-v1"), observe=str, actions=["a", "b"]).max_steps == 500
    assert lifted().max_steps == 50


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text("abc", min_size=1, max_size=4), max_size=2), st.integers(0, 50))
def test_branching_by_replay_is_exact(actions, seed):
    env = lifted()
    env.reset(seed=seed)
    for action in actions:
        env.step(action)
    point = env.snapshot()
    expected = env.step("abcabcabc")
    for other in (env, lifted()):
        other.restore(point)
        assert other.step("abcabcabc") == expected


def test_a_breakdown_is_an_engine_error():
    env = lifted()
    env.reset(seed=0)
    with pytest.raises(EngineError, match="parrots of this kind"):
        env.step("fly")
    env.reset(seed=0)
    with pytest.raises(EngineError, match="as text, got int; pass observe="):
        env.step("number")


def test_names_for_numbered_actions():
    env = from_text_env(
        lambda: gym.make("FrozenLake-v1", is_slippery=False),
        observe=lambda cell: f"Field {cell}.",
        actions=["Left", "down", "right", "up"],
    )
    assert env.env_id == "FrozenLake-v1"
    _, info = env.reset(seed=0)
    assert info["admissible_actions"] == ["Left", "down", "right", "up"]
    observation, *_, info = env.step("<think>which?</think> DOWN ")
    assert (observation, info["action_valid"]) == ("Field 4.", True)
    observation, *_, info = env.step("jump")
    assert observation == "Unknown action. Expected one of: Left, down, right, up."
    assert not info["action_valid"]
    assert env.step("left")[0] == "Field 4."  # nothing had happened


def test_numbers_that_do_not_begin_with_zero():
    class Shifted(Parrot):
        action_space = gym.spaces.Discrete(2, start=5)

        def step(self, action):
            return str(action), 0.0, False, False, {}

    env = from_text_env(Shifted(), actions=["a", "b"])
    env.reset(seed=0)
    assert [env.step(name)[0] for name in "ab"] == ["5", "6"]


def test_dictionaries_are_worded_and_admissible_commands_found():
    class Nested(Parrot):
        observation_space = gym.spaces.Dict({"mission": gym.spaces.Text(100), "image": gym.spaces.Box(0, 1)})

        def reset(self, **kwargs):
            text, _ = super().reset(**kwargs)
            return {"mission": text, "image": 0}, {"can": ["x", "y"]}

    env = from_text_env(Nested(), observe=lambda seen: seen["mission"], admissible=lambda info: info.get("can", []))
    observation, info = env.reset(seed=0)
    assert observation.startswith("Say ")
    assert info["admissible_actions"] == ["x", "y"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: from_text_env(gym.make("CartPole-v1"), actions=["a", "b"]), "not text; pass observe="),
        (lambda: from_text_env(gym.make("CartPole-v1"), observe=str), r"pass actions=\[\.\.\.\]"),
        (lambda: from_text_env(gym.make("CartPole-v1"), observe=str, actions=["a"]), "expected 2 names"),
        (lambda: from_text_env(gym.make("CartPole-v1"), observe=str, actions=["a", "A "]), "different names"),
        (lambda: from_text_env(gym.make("Pendulum-v1"), observe=str), "text or Discrete actions"),
        (lambda: lifted(actions=["a"]), "names the actions of a Discrete space"),
        (lambda: from_text_env(lambda: 3), "expected a gymnasium.Env or a function"),
        (lambda: lifted(split="valid"), "unknown split"),
        (lambda: lifted(max_steps=0), "max_steps >= 1"),
    ],
)
def test_what_cannot_be_lifted_says_what_is_missing(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_lifted_environment_can_be_registered():
    gym.register("zoo/Parrot-v0", entry_point=lifted)
    env = gym.make("zoo/Parrot-v0", split="test", max_steps=3)
    assert env.reset(seed=0)[1]["task_id"].startswith("test-seed-")
    envs = make_vector_env("zoo/Parrot-v0", 2, split="test")
    assert envs.reset(seed=0)[0][0] == env.reset(seed=0)[0]
    envs.close()
    gym.registry.pop("zoo/Parrot-v0")


def test_closing_it_closes_the_foreign_environment_once():
    env = lifted()
    env.reset(seed=0)
    env.close()
    env.close()
    assert env.foreign.closed == 1


def test_tags_work_on_foreign_environments_too():
    env = lifted(action_format="tags")
    env.reset(seed=0)
    assert not env.step("hello")[4]["action_valid"]
    assert env.step(f"<think>easy</think><action>{env.foreign.word}</action>")[4]["success"]
