"""The generator of built-in games: tables of rooms and things, designs, PDDL text."""

from .design import Design, Layout, design_game, split_of
from .tables import LEVELS
from .writer import write_problem

__all__ = ["LEVELS", "Design", "Layout", "design_game", "split_of", "write_problem"]
