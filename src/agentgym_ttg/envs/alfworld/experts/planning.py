"""An expert that knows the whole state: the yardstick for the others, and the maker of walkthroughs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..engine import Episode, World
from ..engine.world import Action, Verb, bits

__all__ = ["PlanningExpert"]

_TREATMENTS = {
    "pick_clean_then_place_in_recep": (Verb.CLEAN, "clean", "cleaners"),
    "pick_heat_then_place_in_recep": (Verb.HEAT, "hot", "microwaves"),
    "pick_cool_then_place_in_recep": (Verb.COOL, "cool", "fridges"),
}


class _Draft:
    """A plan in the making: a world of its own, and the actions that led to it."""

    def __init__(self, world: World, actions: tuple[Action, ...] = ()) -> None:
        self.world = world
        self.actions = actions

    def copy(self) -> _Draft:
        return _Draft(self.world.copy(), self.actions)

    def do(self, verb: Verb, thing: int, receptacle: int) -> None:
        action = (verb, thing, receptacle)
        self.world.apply(action)
        self.actions += (action,)

    def reach(self, receptacle: int, *, inside: bool) -> None:
        """Go there unless it is within reach, and open it where the way inside is needed and closed."""
        world, bit = self.world, 1 << receptacle
        if world.rules.where[receptacle] != world.location:
            self.do(Verb.GO, -1, receptacle)
        if inside and world.rules.openable & bit and not world.opened & bit:
            self.do(Verb.OPEN, -1, receptacle)

    def fetch(self, thing: int, receptacle: int) -> None:
        self.reach(receptacle, inside=True)
        self.do(Verb.TAKE, thing, receptacle)

    def put(self, receptacle: int) -> None:
        self.reach(receptacle, inside=True)
        self.do(Verb.MOVE, self.world.holding, receptacle)


class PlanningExpert:
    """Plans with full knowledge, by trying every thing, appliance and target that the task allows.

    Within the usual shape of a plan (fetch, treat, deliver) the plan is the shortest there is. It is made anew whenever
    the episode is not where the plan expected it, so any other command may come in between.

    Args:
        episode: the episode to play; it is looked at, and never stepped, by the expert.
    """

    def __init__(self, episode: Episode) -> None:
        self.episode = episode
        self._plan: list[str] = []
        self._expected = ""

    def reset(self, observation: str = "") -> None:
        """Forget the plan."""
        self._plan = []
        self._expected = ""

    def act(self, observation: str = "", admissible: Sequence[str] = ()) -> str:
        """Return the next command of a plan from where the episode is; ``look`` where there is none."""
        if not self._plan or self.episode.state_key() != self._expected:
            self._plan = self.plan()
        if not self._plan:
            return "look"
        command = self._plan.pop(0)
        ahead = self.episode.copy()
        ahead.step(command)
        self._expected = ahead.state_key()
        return command

    def plan(self) -> list[str]:
        """Return the commands of a shortest plan from the present state; empty where it is won or cannot be won."""
        if self.episode.won:
            return []
        best: _Draft | None = None
        for draft in self._drafts():
            if (best is None or len(draft.actions) < len(best.actions)) and draft.world.won():
                best = draft
        if best is None:
            return []
        walker, commands = self.episode.copy(), []
        for action in best.actions:
            command = next(text for text, other in walker.world.commands().items() if _same(text, other, action))
            walker.step(command)
            commands.append(command)
        return commands

    def _drafts(self) -> Iterator[_Draft]:
        for start in self._with_usable_hands():
            goal = start.world.rules.problem.goal
            if goal.task_type == "look_at_obj_in_light":
                yield from self._look(start)
            elif goal.task_type == "pick_two_obj_and_place":
                for target in start.world.rules.goal_receptacles:
                    yield from self._collect(start, target)
            else:
                yield from self._place(start)

    def _with_usable_hands(self) -> Iterator[_Draft]:
        """The present state, where the agent holds nothing useless; else the states after putting it down."""
        world = self.episode.world
        if world.holding < 0 or world.rules.goal_things >> world.holding & 1:
            yield _Draft(world.copy())
            return
        for receptacle, fits in enumerate(world.rules.fits):
            if fits >> world.holding & 1 and world.rules.where[receptacle] >= 0:
                draft = _Draft(world.copy())
                draft.put(receptacle)
                yield draft

    def _holding_one(self, start: _Draft, avoid: int = -1) -> Iterator[_Draft]:
        """The states in which the agent holds a wanted thing (taken from anywhere but ``avoid``)."""
        world = start.world
        if world.holding >= 0:
            yield start.copy()
            return
        for receptacle, content in enumerate(world.contents):
            if receptacle != avoid and world.rules.where[receptacle] >= 0:
                for thing in bits(content & world.rules.goal_things & world.rules.pickupable):
                    draft = start.copy()
                    draft.fetch(thing, receptacle)
                    yield draft

    def _look(self, start: _Draft) -> Iterator[_Draft]:
        for held in self._holding_one(start):
            rules = held.world.rules
            for receptacle, content in enumerate(held.world.contents):
                for lamp in bits(content & rules.goal_lamps if rules.where[receptacle] >= 0 else 0):
                    draft = held.copy()
                    draft.reach(receptacle, inside=False)
                    if not draft.world.won():
                        draft.do(Verb.USE, lamp, receptacle)
                    yield draft

    def _place(self, start: _Draft) -> Iterator[_Draft]:
        treatment = _TREATMENTS.get(start.world.rules.problem.goal.task_type)
        for held in self._holding_one(start):
            for ready in self._treated(held, treatment) if treatment else (held,):
                yield ready  # some official games have a thing in two places at once, one of them the target
                yield from self._delivered(ready)

    def _treated(self, held: _Draft, treatment: tuple[Verb, str, str]) -> Iterator[_Draft]:
        verb, state, appliances = treatment
        world = held.world
        if getattr(world, state) >> world.holding & 1:
            yield held
            return
        for appliance in bits(getattr(world.rules, appliances)):
            if world.rules.where[appliance] >= 0:
                draft = held.copy()
                draft.reach(appliance, inside=False)
                draft.do(verb, world.holding, appliance)
                yield draft

    def _delivered(self, held: _Draft) -> Iterator[_Draft]:
        rules, thing = held.world.rules, held.world.holding
        for target in rules.goal_receptacles:
            if rules.fits[target] >> thing & 1 and rules.where[target] >= 0:
                draft = held.copy()
                draft.put(target)
                yield draft

    def _collect(self, start: _Draft, target: int) -> Iterator[_Draft]:
        """Bring wanted things to one receptacle until two are there."""
        rules = start.world.rules
        if (start.world.contents[target] & rules.goal_things).bit_count() >= 2:
            yield start
            return
        for held in self._holding_one(start, avoid=target):
            if rules.fits[target] >> held.world.holding & 1 and rules.where[target] >= 0:
                held.put(target)
                yield from self._collect(held, target)


def _same(text: str, candidate: Action, action: Action) -> bool:
    """Whether a command's action is the one meant (a lamp may be within reach twice)."""
    if candidate[0] is Verb.USE:
        return action[0] is Verb.USE and candidate[1] == action[1]
    return candidate == action
