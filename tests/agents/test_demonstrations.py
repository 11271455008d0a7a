"""Demonstrations for a warm start: mistakes that are refused, and a recording that can be stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import agentgym_ttg  # noqa: F401 - registers the environments
from agentgym_ttg.agents.demonstrations import Demonstrations, record_demonstrations
from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.core.trajectory_files import load_trajectories
from agentgym_ttg.envs.vector import make_vector_env

ALFWORLD = "agentgym_ttg/ALFWorld-v0"


def demonstrate(path: Path, env_id: str = ALFWORLD, **changes: Any) -> Demonstrations:
    settings = {"episodes": 24, "stumble": 0.3, "strays": 2, "seed": 0} | changes
    return record_demonstrations(
        path,
        env_id=env_id,
        probe=gym.make(env_id, split="train").unwrapped,
        make_envs=lambda **kwargs: make_vector_env(env_id, 8, split="train", **kwargs),
        **settings,
    )


def said(trajectories: list[Trajectory]) -> list[tuple[str, list[str]]]:
    return [(t.task_id, [str(turn.completion) for turn in t.turns]) for t in trajectories]


@pytest.fixture(autouse=True)
def few_plain_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentgym_ttg.agents.demonstrations._PLAIN", 8)


def test_the_stumbling_expert_is_refused_at_its_share_of_steps_and_still_succeeds(tmp_path: Path) -> None:
    found = demonstrate(tmp_path / "d.jsonl", episodes=40)
    everything = load_trajectories(tmp_path / "d.jsonl")
    by_policy = {
        name: [turn.valid for t in everything if t.policy == name for turn in t.turns]
        for name in ("expert", "stumbling")
    }
    assert all(by_policy["expert"])
    assert 0.2 < 1 - sum(by_policy["stumbling"]) / len(by_policy["stumbling"]) < 0.4
    assert len(found.solved) >= 36
    assert all(trajectory.success for trajectory in found.solved)


def test_mistakes_are_about_the_place_where_the_game_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentgym_ttg.agents.demonstrations._PLAIN", 60)
    demonstrate(tmp_path / "d.jsonl", episodes=80)
    near = total = 0
    for trajectory in load_trajectories(tmp_path / "d.jsonl"):
        for turn in trajectory.turns:
            if trajectory.policy == "stumbling" and not turn.valid:
                total += 1
                place = " ".join(str(turn.completion).split()[-2:])
                near += place in turn.messages[-1].content
    assert total > 10
    assert near / total > 0.5


def test_an_interrupted_recording_gives_the_same_demonstrations(tmp_path: Path) -> None:
    whole = demonstrate(tmp_path / "whole.jsonl")
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    for kept in (0, 3, 8, 13, 25):
        path = tmp_path / f"part-{kept}.jsonl"
        path.write_bytes(b"".join(lines[:kept]))
        part = demonstrate(path)
        assert said(part.solved) == said(whole.solved)
        assert part.texts == whole.texts


def test_without_a_list_of_every_action_the_plain_expert_is_cloned(tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="the extra 'awm' is not installed")
    found = demonstrate(tmp_path / "d.jsonl", "agentgym_ttg/AgentWorldModel-v0", episodes=4)
    assert {trajectory.policy for trajectory in found.solved} == {"expert"}
    assert len(found.solved) == 4
    assert found.texts == []
