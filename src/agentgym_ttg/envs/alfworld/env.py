"""The ALFWorld environment: one domain, two engines, official and built-in games."""

from __future__ import annotations

import copy
import functools
import os
from typing import Any, ClassVar, Literal, NamedTuple

from agentgym_ttg.core.actions import Action
from agentgym_ttg.core.errors import ConfigError, nearest
from agentgym_ttg.envs.base import MultiTurnEnv, StepResult
from agentgym_ttg.envs.tasks import Task, TaskSet

from .builtin import BuiltinGames
from .data import DATA_VARIABLE, OfficialData
from .engine import Episode, Game
from .experts import SearchingExpert
from .generator import LEVELS

__all__ = ["ALFWorldEnv"]

_ENGINES = ("native", "textworld")


class _State(NamedTuple):
    game: Game
    episode: Episode
    expert: SearchingExpert | None


class ALFWorldEnv(MultiTurnEnv):
    """Household tasks in text, ``agentgym_ttg/ALFWorld-v0``.

    An action is one command, such as ``take apple 1 from fridge 1``; success is the goal reached within ``max_steps``
    (50 in the benchmark's protocol), reward 1. Six task types (``info["task_type"]``). The anchor for step grouping is
    the observation, as in the public GiGPO runs.

    Args:
        split: ``train``, ``valid_seen`` (140 tasks) or ``valid_unseen`` (134).
        data_dir: Folder of the official games. Without it: ``$ALFWORLD_DATA`` where that is set, else built-in games.
        data: ``"built-in"`` or ``"official"`` settles it; ``"auto"`` is the rule above.
        difficulty: Level of the built-in games: ``easy``, ``medium`` or ``hard`` (rooms as full as the official ones).
        engine: ``native`` (this project's simulator) or ``textworld`` (the official one, extra ``alfworld``).
        **kwargs: See :class:`~agentgym_ttg.envs.base.MultiTurnEnv`.

    Raises:
        DataError: If the official games are not there.
        MissingDependencyError: If ``engine="textworld"`` and the extra is not installed.
    """

    splits: ClassVar[tuple[str, ...]] = ("train", "valid_seen", "valid_unseen")
    action_formats: ClassVar[tuple[str, ...]] = ("plain", "tags")
    default_max_steps: ClassVar[int] = 50
    lists_every_action: ClassVar[bool] = True

    def __init__(
        self,
        *,
        split: str = "train",
        data_dir: str | os.PathLike[str] | None = None,
        data: Literal["auto", "built-in", "official"] = "auto",
        difficulty: str = "easy",
        engine: Literal["native", "textworld"] = "native",
        **kwargs: Any,
    ) -> None:
        super().__init__(split=split, **kwargs)
        for what, given, known in (
            ("engine", engine, _ENGINES),
            ("data", data, ("auto", "built-in", "official")),
            ("difficulty", difficulty, tuple(LEVELS)),
        ):
            if given not in known:
                hint = nearest(str(given), known)
                raise ConfigError(
                    f"unknown {what} {given!r}; expected one of {', '.join(known)}"
                    + (f" (did you mean {hint[0]!r}?)" if hint else "")
                )
        if data == "built-in" and data_dir is not None:
            raise ConfigError("data_dir names official games, but data='built-in' was asked for; leave one out")
        self.engine = engine
        folder = data_dir if data_dir is not None else os.environ.get(DATA_VARIABLE) or None
        official = data == "official" or (data == "auto" and folder is not None)
        self.games = _official(str(folder) if folder else None) if official else _builtin(difficulty)
        if engine == "textworld":
            from .textworld_engine import require_alfworld

            require_alfworld()
        self._state: _State | None = None

    def _tasks(self, split: str) -> TaskSet:
        ids = self.games.ids(split)
        source = self.games.name if isinstance(self.games, BuiltinGames) else f"official {self.games.name}"
        return TaskSet(split, ids, source=source)

    def _data_hash(self) -> str:
        return self.games.content_hash(self.split)

    def _begin(self, task: Task) -> str:
        game = self._load(task.id)
        episode = game.start()
        expert = None
        if self.expert:
            expert = SearchingExpert.for_game(game)
            expert.reset(episode.observation)
        self._state = _State(game, episode, expert)
        return episode.observation

    def _load(self, task_id: str) -> Game:
        """Return the game for the chosen engine; both engines' games have the same face."""
        if self.engine == "native":
            return self.games.load(task_id)
        from .textworld_engine import TextWorldGame

        if isinstance(self.games, OfficialData):
            # Read by the official engine alone, which also plays rules that the native one refuses.
            return TextWorldGame.from_file(self.games.path(task_id), game_id=task_id)  # type: ignore[return-value]
        return TextWorldGame.from_game(self.games.load(task_id))  # type: ignore[return-value]

    @property
    def _now(self) -> _State:
        assert self._state is not None
        return self._state

    def _act(self, action: Action) -> StepResult:
        outcome = self._now.episode.step(action.command)
        return StepResult(
            outcome.observation,
            reward=float(outcome.won),
            terminated=outcome.won,
            success=outcome.won,
            valid=outcome.valid,
        )

    def _admissible_actions(self) -> list[str]:
        return self._now.episode.admissible_commands()

    def _task_type(self) -> str:
        return str(self._now.game.task_type)

    def _expert_message(self) -> str:
        state = self._now
        if state.expert is None:
            raise ConfigError("the expert was not asked for; make the environment with expert=True")
        command = state.expert.act(state.episode.observation, state.episode.admissible_commands())
        return self.format.render(command)

    def _snapshot(self) -> _State:
        return self._copy(self._now)

    def _restore(self, state: _State) -> None:
        self._state = self._copy(state)

    @staticmethod
    def _copy(state: _State) -> _State:
        expert = copy.deepcopy(state.expert) if state.expert else None
        return _State(state.game, state.episode.copy(), expert)


@functools.lru_cache(maxsize=8)
def _official(folder: str | None) -> OfficialData:
    """Share the listing and the parsed games between the environments of a process."""
    return OfficialData(folder, cache_size=256)


@functools.lru_cache(maxsize=8)
def _builtin(level: str) -> BuiltinGames:
    return BuiltinGames(level, cache_size=512)
