"""Games and episodes: the face of the native engine."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym_ttg.core.errors import DataError

from .domain import Variant, goal_sentence_of, recognise
from .goals import Goal, TaskType, goal_sentences
from .problem import Problem, read_problem
from .text import NOTHING_HAPPENS, feedback, introduction
from .world import Action, Rules, World

__all__ = ["Episode", "Game", "StepOutcome"]


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What one command led to.

    Attributes:
        observation: what the game says.
        won: whether the goal holds now.
        valid: whether the command was one of the admissible ones.
    """

    observation: str
    won: bool
    valid: bool


class Game:
    """A parsed game: immutable, reusable, cheap to start.

    Attributes:
        id: the game's id, such as ``valid_seen/look_at_obj_in_light-.../trial_...``.
        problem: what the PDDL problem says.
        problem_text: the PDDL problem itself.
        goal_text: the goal sentence, as the game states it.
        variant: which variant of the domain and of the text it is.
        walkthrough: the commands of a solution that came with the game, maybe none.
    """

    __slots__ = (
        "_introduction",
        "_rules",
        "_start",
        "goal_text",
        "id",
        "problem",
        "problem_text",
        "variant",
        "walkthrough",
    )

    def __init__(
        self,
        problem: Problem,
        goal_text: str,
        *,
        variant: Variant | None = None,
        game_id: str = "",
        problem_text: str = "",
        walkthrough: tuple[str, ...] = (),
    ) -> None:
        self.id = game_id
        self.problem = problem
        self.problem_text = problem_text
        self.goal_text = goal_text
        self.variant = variant or Variant()
        self.walkthrough = walkthrough
        self._rules = Rules(problem, self.variant)
        self._start = World.start(self._rules)
        self._introduction = introduction(self._start, goal_text)

    @classmethod
    def from_problem(
        cls,
        problem_text: str,
        goal_text: str | None = None,
        *,
        variant: Variant | None = None,
        game_id: str = "",
        walkthrough: tuple[str, ...] = (),
    ) -> Game:
        """Make a game from a PDDL problem.

        Args:
            problem_text: the PDDL problem.
            goal_text: the goal sentence; the official wording of the problem's goal where it is left out. A final stop
                is added where there is none.
            variant: the variant of the domain; the newest where it is left out.
            game_id: an id, for errors and results.
            walkthrough: a solution, where one is known.

        Returns:
            The game.

        Raises:
            DataError: if the problem is outside the ALFWorld domain.
        """
        problem = read_problem(problem_text, game_id or "the PDDL problem")
        sentence = goal_text.strip() if goal_text else goal_sentences(problem.goal)[0]
        if not sentence.endswith((".", "!", "?")):
            sentence += "."
        return cls(
            problem,
            sentence,
            variant=variant,
            game_id=game_id,
            problem_text=problem_text,
            walkthrough=walkthrough,
        )

    @classmethod
    def from_file(cls, path: str | Path, *, game_id: str = "") -> Game:
        """Read a ``game.tw-pddl`` file.

        Args:
            path: the file.
            game_id: an id; the path where it is left out.

        Returns:
            The game.

        Raises:
            DataError: if the file is missing, damaged, or outside the ALFWorld domain; names the file.
        """
        path = Path(path)
        try:
            content = json.loads(path.read_bytes())
        except OSError as error:
            raise DataError(f"cannot read the game file {path}: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"the game file {path} is damaged: expected one JSON object, found {error}. "
                "Fetch the data again, or leave this game out."
            ) from error
        sentence = None
        if isinstance(content, dict) and not str(content.get("grammar", "")).strip():
            sentence = _sentence_beside(path)
        return cls.from_data(content, where=str(path), game_id=game_id or str(path), goal_text=sentence)

    @classmethod
    def from_data(
        cls, content: Any, *, where: str = "the game", game_id: str = "", goal_text: str | None = None
    ) -> Game:
        """Make a game from the content of a ``game.tw-pddl`` file.

        Args:
            content: the file's JSON object.
            where: the file's name, for errors.
            game_id: an id.
            goal_text: the goal sentence for a file whose grammar was left out.

        Returns:
            The game.

        Raises:
            DataError: if a field is missing or the game is outside the ALFWorld domain.
        """
        if not isinstance(content, dict):
            raise DataError(f"{where}: expected a JSON object, found {type(content).__name__}")
        for key in ("pddl_problem", "pddl_domain", "grammar"):
            if not isinstance(content.get(key), str):
                found = type(content[key]).__name__ if key in content else "no such field"
                raise DataError(
                    f"{where}: expected the text field {key!r} of a game.tw-pddl file, found {found}. "
                    "Fetch the data again, or leave this game out."
                )
        steps = content.get("walkthrough")
        walkthrough = tuple(map(str, steps)) if isinstance(steps, list) else ()
        try:
            variant = recognise(content["pddl_domain"], content["grammar"])
            return cls.from_problem(
                content["pddl_problem"],
                goal_sentence_of(content["grammar"]) or goal_text,
                variant=variant,
                game_id=game_id,
                walkthrough=walkthrough,
            )
        except DataError as error:
            if where in str(error):
                raise
            raise DataError(f"{where}: {error}") from error

    @property
    def task_type(self) -> TaskType:
        """One of the six official task types."""
        return self.problem.goal.task_type

    @property
    def goal(self) -> Goal:
        """What has to be reached."""
        return self.problem.goal

    def start(self) -> Episode:
        """Start an episode; costs microseconds."""
        return Episode(self, self._start.copy(), self._introduction)

    def __repr__(self) -> str:
        return f"Game({self.id!r}, {self.task_type}, {self.goal_text!r})"


def _sentence_beside(path: Path) -> str | None:
    """The goal sentence of a game that was rebuilt without its grammar; its ``traj_data.json`` then holds it."""
    try:
        beside = json.loads((path.parent / "traj_data.json").read_bytes())
        if beside.get("rebuilt_from_pack"):
            return str(beside["turk_annotations"]["anns"][0]["task_desc"])
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        pass
    return None


class Episode:
    """One game being played. After a win it can be played on; that is for the caller to stop.

    Attributes:
        game: the game.
        observation: what the game said last.
        world: the state; look at it, but leave changing it to :meth:`step`.
    """

    __slots__ = ("_commands", "_won", "game", "observation", "world")

    def __init__(self, game: Game, world: World, observation: str) -> None:
        self.game = game
        self.world = world
        self.observation = observation
        self._commands: dict[str, Action] | None = None
        self._won: bool | None = None

    @property
    def won(self) -> bool:
        """Whether the goal holds now."""
        if self._won is None:
            self._won = self.world.won()
        return self._won

    def _applicable(self) -> dict[str, Action]:
        if self._commands is None:
            self._commands = self.world.commands()
        return self._commands

    def admissible_commands(self) -> list[str]:
        """Return the commands that do something now, sorted as TextWorld sorts them."""
        return sorted(self._applicable())

    def step(self, command: str) -> StepOutcome:
        """Play one command.

        Args:
            command: any text; what is not admissible changes nothing and never raises.

        Returns:
            What it led to.
        """
        action = self._applicable().get(command.strip())
        if action is None:
            self.observation = NOTHING_HAPPENS
            return StepOutcome(NOTHING_HAPPENS, self.won, False)
        self.world.apply(action)
        self._commands = self._won = None
        self.observation = feedback(self.world, action)
        return StepOutcome(self.observation, self.won, True)

    def copy(self) -> Episode:
        """Return an independent copy: a branch from here."""
        twin = Episode(self.game, self.world.copy(), self.observation)
        twin._commands, twin._won = self._commands, self._won  # never changed in place
        return twin

    def state_key(self) -> str:
        """Return a short text that is equal exactly for equal states of this game, on every machine."""
        return hashlib.blake2b(self.world.key().encode(), digest_size=12).hexdigest()
