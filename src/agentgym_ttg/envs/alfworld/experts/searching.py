"""An expert that knows only what it has read: it searches where things usually are, and does the task."""

from __future__ import annotations

from collections.abc import Sequence

from ..engine import Game, Goal
from .belief import Belief, kind_of, read_task
from .prior import chance_of

__all__ = ["SearchingExpert"]

_OPENABLE = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})
_TREATMENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "pick_clean_then_place_in_recep": ("clean", ("sinkbasin", "sink")),
    "pick_heat_then_place_in_recep": ("heat", ("microwave",)),
    "pick_cool_then_place_in_recep": ("cool", ("fridge",)),
}


class SearchingExpert:
    """Solves a game from its text alone, with either engine.

    It looks first where a thing of the wanted kind is most likely found for the fewest commands, by what is known of
    official training games, and never looks twice. What it does next depends on what it has read, not on what it
    did, so it carries on after any command that somebody else chose for it.

    Args:
        goal: the task; read from the first observation where it is left out.

    Example:
        >>> from agentgym_ttg.envs.alfworld.builtin import BuiltinGames
        >>> episode = BuiltinGames("easy").load("builtin/easy/valid_seen/000000").start()
        >>> expert = SearchingExpert()
        >>> expert.reset(episode.observation)
        >>> for _ in range(50):
        ...     outcome = episode.step(expert.act(episode.observation, episode.admissible_commands()))
        ...     if outcome.won:
        ...         break
        >>> outcome.won
        True
    """

    def __init__(self, goal: Goal | None = None) -> None:
        self._given = goal
        self._started = False

    @classmethod
    def for_game(cls, game: Game) -> SearchingExpert:
        """Make an expert that is told the game's goal, for games whose sentence it could not read."""
        return cls(game.goal)

    def reset(self, observation: str) -> None:
        """Start an episode.

        Args:
            observation: the first text of the game.

        Raises:
            PolicyError: if the task cannot be told from it and no goal was given.
        """
        self.goal = self._given or read_task(observation)
        self.belief = Belief(observation)
        self._refused: set[str] = set()
        self._unfit: set[tuple[str, str]] = set()
        self._last = ""
        self._started = True

    def act(self, observation: str, admissible: Sequence[str] = ()) -> str:
        """Choose the next command.

        Args:
            observation: what the game said last.
            admissible: the admissible commands, where known.

        Returns:
            A command.
        """
        if not self._started:
            self.reset(observation)
        self.belief.update(observation, admissible)
        self._admissible = frozenset(admissible)
        if self._last and observation.startswith("Nothing happens"):
            self._refused.add(self._last)  # matters only without an admissible list: do not try that again
        elif observation.startswith("You arrive"):  # elsewhere, other ways are open
            self._refused = {command for command in self._refused if command.startswith(("move", "put"))}
        self._learn_what_fits()
        for command in self._ideas():
            if self._possible(command):
                self._last = command
                return command
        # Everything was seen, and it is not there: forget what was seen, and look again.
        self.belief.contents.clear()
        self._refused.clear()
        self._last = ""
        return next((command for command in self._ideas() if self._possible(command)), "look")

    def _learn_what_fits(self) -> None:
        """Remember where the held thing cannot be put, so as not to carry it there again."""
        belief, held = self.belief, self.belief.holding
        for name in self.belief.receptacles if held else ():
            offers = {f"move {held} to {name}", f"put {held} in/on {name}"}
            if self._admissible:
                if self._near(name) and name not in belief.closed and not offers & self._admissible:
                    self._unfit.add((kind_of(held), name))
            elif offers <= self._refused:
                self._unfit.add((kind_of(held), name))

    def _fits(self, name: str) -> bool:
        return (kind_of(self.belief.holding), name) not in self._unfit

    def _possible(self, command: str) -> bool:
        if not command:
            return False
        return command in self._admissible if self._admissible else command not in self._refused

    def _ideas(self) -> list[str]:
        """Commands to try, the best first; those that turn out impossible are passed over."""
        goal, belief = self.goal, self.belief
        wanted = kind_of(belief.holding) == goal.object_kind if belief.holding else False
        if belief.holding and not wanted:
            return self._put_away()
        if goal.task_type == "look_at_obj_in_light":
            if not wanted:
                return self._fetch(set())
            return self._use_lamp()
        if goal.task_type == "pick_two_obj_and_place":
            target = self._common_target()
            if wanted:
                return self._deliver([target]) + self._deliver(self._targets())
            return self._fetch({target})
        if not wanted:
            return self._fetch(set(self._targets()))
        treatment, appliances = _TREATMENTS.get(goal.task_type, ("", ()))
        if treatment and treatment not in belief.treated.get(belief.holding, ()):
            return self._treat(treatment, appliances)
        return self._deliver(self._targets())

    def _targets(self) -> list[str]:
        """The receptacles to deliver to: those within reach first, then those that need no opening."""
        belief = self.belief
        targets = [name for name in belief.receptacles if kind_of(name) == self.goal.target_kind]
        return sorted(targets, key=lambda name: (name not in belief.here, self._needs_opening(name)))

    def _common_target(self) -> str:
        """The one receptacle that both things go to: where one is already, else the handiest."""
        kind, belief = self.goal.object_kind, self.belief

        def count(name: str) -> int:
            return sum(1 for thing in belief.contents.get(name, ()) if kind_of(thing) == kind)

        targets = self._targets()
        return max(targets, key=count) if targets else ""

    def _needs_opening(self, name: str) -> bool:
        belief = self.belief
        return name in belief.closed or (name not in belief.contents and kind_of(name) in _OPENABLE)

    def _reach(self, name: str) -> list[str]:
        """Commands to look into a receptacle, or to come nearer to that."""
        if self._near(name):
            return [f"open {name}", f"examine {name}"] if name in self.belief.closed else [f"examine {name}"]
        return [f"go to {name}", f"examine {name}"]  # from a neighbour at the same spot one cannot go there

    def _near(self, name: str) -> bool:
        return name in self.belief.here or name == self.belief.at

    def _deliver(self, targets: list[str]) -> list[str]:
        held, ideas = self.belief.holding, []
        for name in filter(self._fits, targets):
            if self._near(name):
                opening = [f"open {name}"] if name in self.belief.closed else []
                ideas += [*opening, f"move {held} to {name}", f"put {held} in/on {name}"]
            else:
                ideas.append(f"go to {name}")
        return ideas

    def _treat(self, treatment: str, appliances: tuple[str, ...]) -> list[str]:
        held = self.belief.holding
        names = [name for kind in appliances for name in self.belief.receptacles if kind_of(name) == kind]
        near = [f"{treatment} {held} with {name}" for name in names if name in self.belief.here]
        return near + [f"go to {name}" for name in names]

    def _use_lamp(self) -> list[str]:
        belief, kind = self.belief, self.goal.target_kind
        lamps = sorted(belief.places_of(kind), key=lambda pair: pair[1] not in belief.here)
        ideas: list[str] = []
        for lamp, place in lamps:
            ideas += [f"use {lamp}"] if self._near(place) else [f"go to {place}", f"use {lamp}"]
        return ideas or self._search(kind, set())

    def _fetch(self, leave: set[str]) -> list[str]:
        """Take a thing of the wanted kind that is not yet where it belongs, or look for one.

        Args:
            leave: receptacles from which nothing finished is to be taken away.
        """
        goal, belief = self.goal, self.belief
        treatment = _TREATMENTS.get(goal.task_type, ("", ()))[0]
        choices: list[tuple[tuple[bool, int], str, str]] = []
        for thing, place in belief.places_of(goal.object_kind):
            done = not treatment or treatment in belief.treated.get(thing, ())
            if place in leave and done:
                continue
            cost = (0 if self._near(place) else 1) + (1 if self._needs_opening(place) else 0)
            choices.append(((bool(treatment) and not done, cost), thing, place))
        ideas: list[str] = []
        for _, thing, place in sorted(choices):
            take = f"take {thing} from {place}"
            if not self._near(place):
                ideas += [f"go to {place}", take]
            else:
                ideas += [f"open {place}"] if place in belief.closed else [take]
        if ideas:
            return ideas
        # In the simple placing task, one in a target would mean that the game is won: look there last.
        return self._search(goal.object_kind, leave if goal.task_type == "pick_and_place_simple" else set())

    def _search(self, kind: str, last: set[str]) -> list[str]:
        """Look into the receptacles that were not seen yet: most chance per command first."""
        belief = self.belief
        order: list[tuple[float, int, str]] = []
        for index, name in enumerate(belief.receptacles):
            if name in belief.contents:
                continue
            cost = (0 if self._near(name) else 1) + (1 if self._needs_opening(name) else 0)
            chance = chance_of(kind, kind_of(name)) * (0.01 if name in last else 1.0)
            order.append((-chance / max(cost, 1), index, name))
        ideas: list[str] = []
        for _, _, name in sorted(order):
            ideas += self._reach(name)
        return ideas

    def _put_away(self) -> list[str]:
        """Get rid of a thing that is not wanted: where that takes the fewest commands, and was not tried in vain."""
        belief, held = self.belief, self.belief.holding
        here = [name for name in belief.receptacles if self._near(name) and name not in belief.closed]
        ideas = [command for name in here for command in (f"move {held} to {name}", f"put {held} in/on {name}")]
        order: list[tuple[int, bool, float, str]] = []
        for name in belief.receptacles:
            if name not in here and self._fits(name):
                cost = (0 if self._near(name) else 1) + (1 if self._needs_opening(name) else 0)
                order.append((cost, name != belief.origin, -chance_of(kind_of(held), kind_of(name)), name))
        return ideas + [f"open {name}" if self._near(name) else f"go to {name}" for *_, name in sorted(order)]
