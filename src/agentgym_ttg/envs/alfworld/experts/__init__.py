"""Experts for ALFWorld: one that searches from the text alone, one that knows the state, and a noisy hand for both."""

from .belief import Belief, read_task
from .noisy import Expert, NoisyExpert
from .planning import PlanningExpert
from .searching import SearchingExpert

__all__ = ["Belief", "Expert", "NoisyExpert", "PlanningExpert", "SearchingExpert", "read_task"]
