import gymnasium as gym
import pytest
import toy_envs

from agentgym_ttg import from_text_env
from agentgym_ttg.core import Completion, EngineError, EpisodeError, TrajectoryFileError, load_trajectories
from agentgym_ttg.wrappers import ChatHistory, RecordTrajectories

TASK = "count/train/000004"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.jsonl"


def record(path, **kwargs):
    return RecordTrajectories(gym.make(toy_envs.COUNTING, max_steps=3), path, policy="me", **kwargs)


def play(env, *actions, seed=None):
    env.reset(seed=seed, options={"task_id": TASK})
    return [env.step(action) for action in actions]


def test_a_finished_episode_is_on_disk_at_once(path):
    env = record(path, metadata={"source": "a test"})
    steps = play(env, Completion("up", token_ids=[1, 2], logprobs=[-1.0, -2.0], prompt_ids=[7]), "dance", "win", seed=5)
    [one] = load_trajectories(path)
    assert (one.env_id, one.task_id, one.policy, one.outcome) == (toy_envs.COUNTING, TASK, "me", "success")
    assert [turn.observation for turn in one.turns] == [step[0] for step in steps]
    assert [turn.tokens for turn in one.turns] == [step[4]["assistant_tokens"] for step in steps]
    assert [turn.valid for turn in one.turns] == [True, False, True]
    assert one.anchors == ["0/7", "1/7", "1/7"]
    assert one.total_reward == 1.0
    assert one.turns[0].completion.logprobs == (-1.0, -2.0)
    assert one.turns[0].prompt_ids == (7,)
    assert one.tools[0]["function"]["name"] == "add"
    assert one.metadata == {
        "split": "train",
        "seed": 5,
        "source": "a test",
        "task_type": "to-7",
        "metrics": {"ups": 7.0},
    }
    env.close()


def test_every_episode_is_one_line_and_a_file_is_appended_to(path):
    for _ in range(2):
        env = record(path)
        play(env, "lose")
        play(env, "up", "up", "up")
        env.close()
        env.close()
    assert [one.outcome for one in load_trajectories(path)] == ["failure", "truncated"] * 2
    assert not any("unfinished" in one.metadata for one in load_trajectories(path))


def test_what_is_left_unfinished_says_so(path):
    env = record(path)
    play(env, "up")
    play(env, "up", "up")  # left by the reset
    env.reset()  # nothing was decided: no trajectory
    env.close()
    assert [(len(one), one.outcome, one.metadata["unfinished"]) for one in load_trajectories(path)] == [
        (1, "truncated", True),
        (2, "truncated", True),
    ]


def test_a_breakdown_is_recorded_as_error_and_still_raised(path):
    env = record(path)
    with pytest.raises(EngineError, match="boom"):
        play(env, "up", Completion("boom", token_ids=[1, 2, 3]))
    [one] = load_trajectories(path)
    assert (one.outcome, len(one), one.turns[1].tokens) == ("error", 2, 3)
    assert "ZeroDivisionError: boom" in one.metadata["error"]


def test_what_the_caller_gets_wrong_is_no_turn(path):
    env = record(path)
    play(env, "up")
    with pytest.raises(TypeError):
        env.step(3)
    env.step("lose")
    with pytest.raises(EpisodeError):
        env.step("up")
    assert [len(one) for one in load_trajectories(path)] == [2]


def test_a_branch_carries_its_record(path):
    env = record(path)
    play(env, "roll")
    point = env.snapshot()
    env.step("lose")
    env.restore(point)
    env.step("win")
    assert [[str(turn.completion) for turn in one.turns] for one in load_trajectories(path)] == [
        ["roll", "lose"],
        ["roll", "win"],
    ]


def test_it_works_around_and_inside_other_wrappers(path):
    env = ChatHistory(record(path))
    play(env, "lose", seed=1)
    env.close()
    outer = RecordTrajectories(ChatHistory(gym.make(toy_envs.COUNTING)), path)
    play(outer, "lose", seed=1)
    outer.close()
    first, second = load_trajectories(path)
    assert (first.env_id, first.turns) == (second.env_id, second.turns)


def test_a_lifted_environment_is_recorded_under_its_name(path):
    env = RecordTrajectories(
        from_text_env(gym.make("CartPole-v1"), observe=str, actions=["left", "right"], max_steps=1), path
    )
    env.reset(seed=0)
    env.step("left")
    [one] = load_trajectories(path)
    assert (one.env_id, one.outcome) == ("CartPole-v1", "truncated")
    assert one.task_id.startswith("seed-")


def test_two_writers_of_one_file_are_refused(path):
    env = record(path)
    with pytest.raises(TrajectoryFileError, match="being written"):
        record(path)
    env.close()
