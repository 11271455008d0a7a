"""The official engine, TextWorld, behind the same face as the native one.

Needs the extra ``alfworld``. It is the reference that the native engine is tested against, and it plays game files
whose rules the native engine refuses. Mind three things:

* It evaluates Python expressions that stand in the game file's grammar. **A game file from somebody you do not trust
  is code**; play such a file with the native engine, which never evaluates anything.
* It is not thread-safe (module-wide options of the planner's translator, one shared library per game). Play each
  episode in one thread, or better in a process of its own; starting episodes is serialised here.
* It cannot copy a state, so :meth:`TextWorldEpisode.copy` starts a new episode and plays the same commands again:
  seconds, where the native engine takes a microsecond.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentgym_ttg.core.errors import DataError, EngineError, MissingDependencyError

from .data import DATA_VARIABLE
from .engine import Game, Goal, StepOutcome, TaskType, goal_sentences, read_problem
from .engine.domain import goal_sentence_of

__all__ = ["TextWorldEpisode", "TextWorldGame", "game_data", "require_alfworld"]

_starting = threading.Lock()


@contextmanager
def _data_variable_kept() -> Iterator[None]:
    """Undo what importing ``alfworld`` does to ``$ALFWORLD_DATA``, which settles where games come from here."""
    before = os.environ.get(DATA_VARIABLE)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(DATA_VARIABLE, None)
        else:
            os.environ[DATA_VARIABLE] = before


@lru_cache(maxsize=1)
def require_alfworld() -> Callable[[], Any]:
    """Import the official packages; return a function that makes a fresh official environment.

    Raises:
        MissingDependencyError: if they are not installed.
    """
    try:
        with _data_variable_kept():
            import textworld
            from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
            from textworld.envs.pddl import PddlEnv
    except ImportError as error:
        raise MissingDependencyError("alfworld", "alfworld", "the official TextWorld engine") from error

    def make() -> Any:
        infos = textworld.EnvInfos(won=True, admissible_commands=True)
        return AlfredDemangler(PddlEnv(infos), shuffle=False)

    return make


def game_data(game: Game) -> dict[str, Any]:
    """Return the content of a ``game.tw-pddl`` file for a game.

    The PDDL domain and the grammar are those of the installed ``alfworld`` package, brought into the game's variant.

    Raises:
        MissingDependencyError: if ``alfworld`` is not installed.
        DataError: if the game's problem text was not kept, or the installed package has no such variant.
    """
    try:
        with _data_variable_kept():
            from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH
    except ImportError as error:
        raise MissingDependencyError("alfworld", "alfworld", "writing a game file for TextWorld") from error
    if not game.problem_text:
        raise DataError(f"the game {game.id!r} was made without its PDDL text, so it cannot be written out")
    if game.variant.syntax != "move" or not game.variant.has_help:
        raise DataError(f"the game {game.id!r} has the old 'put X in/on Y' syntax, which alfworld 0.4 no longer has")
    domain = Path(ALFRED_PDDL_PATH).read_text(encoding="utf-8")
    if game.variant.sink_cleans:
        domain = domain.replace(";(receptacleType ?r SinkType)", "(receptacleType ?r SinkType)")
    grammar = Path(ALFRED_TWL2_PATH).read_text(encoding="utf-8")
    sentence = game.goal_text
    if any(character in sentence for character in '\\"#{}[]|<>;\n\r'):
        raise DataError(f"the goal sentence {sentence[:80]!r} has characters that TextWorld's grammar would interpret")
    return {
        "pddl_domain": domain,
        "grammar": grammar.replace("UNKNOWN GOAL.", sentence),
        "pddl_problem": game.problem_text,
        "solvable": True,
        "walkthrough": list(game.walkthrough),
    }


class TextWorldGame:
    """A game for the official engine; the same face as :class:`~agentgym_ttg.envs.alfworld.engine.Game`.

    Attributes:
        id: the game's id.
        content: the content of the game file.
        goal: what has to be reached.
        goal_text: the goal sentence.
        walkthrough: the solution that came with the game, maybe none.
    """

    def __init__(
        self, content: dict[str, Any], *, game_id: str, goal: Goal, goal_text: str, walkthrough: tuple[str, ...] = ()
    ) -> None:
        self.id = game_id
        self.content = content
        self.goal = goal
        self.goal_text = goal_text
        self.walkthrough = walkthrough

    @classmethod
    def from_file(cls, path: str | Path, *, game_id: str = "") -> TextWorldGame:
        """Read a ``game.tw-pddl`` file.

        Raises:
            DataError: if the file is missing or damaged, or its goal is none of the six task types.
        """
        path = Path(path)
        try:
            content = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read the game file {path}: {error}") from error
        return cls.from_data(content, where=str(path), game_id=game_id or str(path))

    @classmethod
    def from_data(cls, content: Any, *, where: str = "the game", game_id: str = "") -> TextWorldGame:
        """Make a game from the content of a ``game.tw-pddl`` file; rules the native engine refuses are fine here."""
        if not isinstance(content, dict) or not isinstance(content.get("pddl_problem"), str):
            raise DataError(
                f"{where}: expected the JSON object of a game.tw-pddl file with a text field 'pddl_problem'"
            )
        domain, grammar = (str(content.get(key) or "") for key in ("pddl_domain", "grammar"))
        if not domain.strip() or not grammar.strip():
            raise DataError(
                f"{where}: the file has no PDDL domain or no grammar, which the official engine needs. "
                "Rebuild the folder where the alfworld package is installed, or use the native engine."
            )
        goal = read_problem(content["pddl_problem"], where).goal
        steps = content.get("walkthrough")
        return cls(
            content,
            game_id=game_id,
            goal=goal,
            goal_text=goal_sentence_of(grammar) or goal_sentences(goal)[0],
            walkthrough=tuple(map(str, steps)) if isinstance(steps, list) else (),
        )

    @classmethod
    def from_game(cls, game: Game) -> TextWorldGame:
        """Make the official counterpart of a native game, such as a built-in one."""
        return cls(
            game_data(game), game_id=game.id, goal=game.goal, goal_text=game.goal_text, walkthrough=game.walkthrough
        )

    @property
    def task_type(self) -> TaskType:
        """One of the six official task types."""
        return self.goal.task_type

    def start(self) -> TextWorldEpisode:
        """Start an episode; takes seconds.

        Raises:
            MissingDependencyError: if ``alfworld`` is not installed.
            EngineError: if TextWorld fails to load the game.
        """
        make = require_alfworld()
        with _starting:
            try:
                env = make()
                env.load(self.content)
                state = env.reset()
            except Exception as error:
                raise EngineError(f"TextWorld could not start {self.id!r}: {type(error).__name__}: {error}") from error
        return TextWorldEpisode(self, env, state)


class TextWorldEpisode:
    """One game being played by TextWorld; the same face as the native ``Episode``.

    Attributes:
        game: the game.
        observation: what the game said last.
        won: whether the goal holds now.
    """

    def __init__(self, game: TextWorldGame, env: Any, state: Any) -> None:
        self.game = game
        self._env = env
        self._played: list[str] = []
        self._take(state)

    def _take(self, state: Any) -> None:
        self.observation = str(state.feedback)
        self.won = bool(state["won"])
        self._admissible: list[str] = list(state["admissible_commands"])

    def admissible_commands(self) -> list[str]:
        """Return the commands that do something now, sorted."""
        return list(self._admissible)

    def step(self, command: str) -> StepOutcome:
        """Play one command; what is not admissible changes nothing."""
        valid = command.strip() in self._admissible
        try:
            state, _, _ = self._env.step(command)
        except Exception as error:
            raise EngineError(f"TextWorld failed at {command[:80]!r}: {type(error).__name__}: {error}") from error
        if valid:
            self._played.append(command)
        self._take(state)
        return StepOutcome(self.observation, self.won, valid)

    def copy(self) -> TextWorldEpisode:
        """Return an independent copy, made by playing the same commands in a new episode: slow."""
        twin = self.game.start()
        for command in self._played:
            twin.step(command)
        twin.observation = self.observation
        return twin

    def state_key(self) -> str:
        """Return a short text for the state: a hash of TextWorld's facts, but for those on what was looked at."""
        facts = sorted(str(fact) for fact in self._env.unwrapped.state["_facts"] if fact.name != "checked")
        return hashlib.blake2b("\n".join(facts).encode(), digest_size=12).hexdigest()
