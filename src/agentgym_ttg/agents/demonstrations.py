"""Demonstrations to clone: the environment's expert, who at some steps says what will be refused, and goes on.

A clone of an expert that never errs has never read a refusal. Once refused it repeats itself to the end of the episode,
and no reward tells it what else to do. Steps that were refused are read, not cloned (:mod:`.warm_start`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_ttg.core.actions import ActionFormat
from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.core.trajectory_files import iter_trajectories
from agentgym_ttg.envs.base import MultiTurnEnv
from agentgym_ttg.envs.vector import TextVectorEnv

from .policies.base import GenerationRequest
from .policies.scripted import ExpertPolicy
from .recording import Recorder, parse_recorder, record

__all__ = ["Demonstrations", "StumblingExpert", "record_demonstrations"]

_ENTITY = re.compile(r"[a-z]+ \d+")
#: Episodes of the plain expert whose commands the stumbling one takes for its mistakes.
_PLAIN = 250
#: Seeds that no run uses, so that training meets other tasks than those that were cloned.
_SEEDS = 2**31


class StumblingExpert(ExpertPolicy):
    """The expert, except that it sometimes says what the environment refuses.

    Wrong commands are what experts said in other episodes, about the place where this one is, if there are such: just
    what a clone imagines.

    Args:
        p: Probability of a wrong command at a step, in [0, 1].
        said: Messages of other episodes.
        action_format: Reads their commands; the environment's ``format``.
        name: For the record.
    """

    def __init__(self, p: float, said: Sequence[str], action_format: ActionFormat, *, name: str = "stumbling") -> None:
        super().__init__(name=name)
        self.p = p
        self._commands = {message: action_format.parse(message).command for message in said}
        self._about: dict[str, list[str]] = defaultdict(list)
        for message, command in self._commands.items():
            if entities := _ENTITY.findall(command):
                self._about[entities[-1]].append(message)

    def _answer(self, request: GenerationRequest) -> str:
        stumbles = request.rng.random() < self.p
        wrong = self._wrong(request) if stumbles else None
        return super()._answer(request) if wrong is None else wrong

    def _wrong(self, request: GenerationRequest) -> str | None:
        """Return a message that will be refused, if there is one."""
        admissible = set(request.info["admissible_actions"])
        here = dict.fromkeys(_ENTITY.findall(request.messages[-1].content))
        near = [message for entity in here for message in self._about.get(entity, ())]
        for messages in (near, self._commands):
            refused = [message for message in messages if self._commands[message] not in admissible]
            if refused:
                return refused[int(request.rng.integers(len(refused)))]
        return None


@dataclass(slots=True)
class Demonstrations:
    """What a warm start is made of.

    Attributes:
        solved: The expert's successful episodes, in the order of their tasks.
        texts: What the environment answers off the way, for the tokenizer.
    """

    solved: list[Trajectory]
    texts: list[str]


def record_demonstrations(
    path: Path,
    *,
    episodes: int,
    stumble: float,
    strays: int,
    seed: int,
    env_id: str,
    probe: MultiTurnEnv,
    make_envs: Callable[..., TextVectorEnv],
    on_episode: Callable[[Trajectory], Any] = lambda trajectory: None,
) -> Demonstrations:
    """Record an environment's expert; an interrupted call goes on where it stopped.

    Args:
        path: Trajectory file.
        episodes: Episodes of the expert.
        stumble: Share of steps at which it says what is refused; taken as 0 where the environment does not list every
            admissible action, since there nothing tells beforehand what will be refused.
        strays: Episodes of an expert that errs half the time, read only for the tokenizer; none where there is no list.
        seed: Seeds tasks and mistakes.
        env_id: Registered id.
        probe: An environment of the kind.
        make_envs: Builds the vector environment; takes ``expert=``.
        on_episode: Called with each new trajectory.
    """

    def add(recorder: Recorder, count: int, number: int) -> list[Trajectory]:
        record(
            path,
            [recorder],
            episodes=count,
            seed=_SEEDS + 3 * seed + number,
            env_id=env_id,
            make_envs=make_envs,
            probe=probe,
            on_episode=on_episode,
        )
        # An interrupted recording is resumed in another order; what is cloned must not depend on it.
        found = [trajectory for trajectory in iter_trajectories(path) if trajectory.policy == recorder.name]
        return sorted(found, key=lambda trajectory: str(trajectory.metadata.get("episode_id")))

    stumble = stumble if probe.lists_every_action else 0.0
    plain = add(parse_recorder("expert"), min(episodes, _PLAIN) if stumble else episodes, 0)
    solved = [trajectory for trajectory in plain if trajectory.success]
    if stumble and episodes > len(plain):
        said = [str(turn.completion) for trajectory in plain for turn in trajectory.turns]
        clumsy = Recorder("stumbling", lambda form: StumblingExpert(stumble, said, form), needs_expert=True)
        solved += [trajectory for trajectory in add(clumsy, episodes - len(plain), 1) if trajectory.success]
    astray = add(parse_recorder("noisy:0.5"), strays, 2) if strays and probe.lists_every_action else []
    return Demonstrations(solved, [turn.observation for trajectory in astray for turn in trajectory.turns])
