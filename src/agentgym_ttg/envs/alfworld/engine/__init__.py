"""The native engine: ALFWorld's text games in pure Python, equal to TextWorld's in text, commands and wins.

>>> from agentgym_ttg.envs.alfworld.builtin import BuiltinGames
>>> episode = BuiltinGames("easy").load("builtin/easy/train/000000").start()
>>> episode.observation.splitlines()[0]
'-= Welcome to TextWorld, ALFRED! =-'
>>> "look" in episode.admissible_commands()
True
>>> episode.step("fly to the moon")
StepOutcome(observation='Nothing happens.', won=False, valid=False)
"""

from .domain import Variant
from .game import Episode, Game, StepOutcome
from .goals import TASK_TYPES, Goal, TaskType, goal_sentences
from .problem import Problem, Receptacle, Thing, read_problem
from .world import Verb, World

__all__ = [
    "TASK_TYPES",
    "Episode",
    "Game",
    "Goal",
    "Problem",
    "Receptacle",
    "StepOutcome",
    "TaskType",
    "Thing",
    "Variant",
    "Verb",
    "World",
    "goal_sentences",
    "read_problem",
]
