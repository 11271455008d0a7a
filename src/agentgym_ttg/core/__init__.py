"""The vocabulary: messages, completions, turns, trajectories, spaces, parsing, counting, files, errors."""

import importlib
from typing import TYPE_CHECKING, Any

from .actions import Action, ActionFormat, PlainFormat, TagFormat, ToolFormat, make_action_format, split_reasoning
from .completion import Completion
from .errors import (
    AgentGymError,
    ConfigError,
    DataError,
    EngineError,
    EpisodeError,
    MissingDependencyError,
    PolicyError,
    TrajectoryFileError,
    UnknownTaskError,
)
from .messages import Message, ToolCall
from .recorder import TrajectoryBuilder
from .spaces import Unicode
from .tokenizers import Tokenizer, count_tokens, load_tokenizer
from .tool_calls import ToolCallError, parse_tool_calls
from .trajectory import Outcome, Trajectory, TrajectoryGroup, Turn

if TYPE_CHECKING:
    from .trajectory_files import TrajectoryWriter, export_parquet, iter_trajectories, load_trajectories

__all__ = [
    "Action",
    "ActionFormat",
    "AgentGymError",
    "Completion",
    "ConfigError",
    "DataError",
    "EngineError",
    "EpisodeError",
    "Message",
    "MissingDependencyError",
    "Outcome",
    "PlainFormat",
    "PolicyError",
    "TagFormat",
    "Tokenizer",
    "ToolCall",
    "ToolCallError",
    "ToolFormat",
    "Trajectory",
    "TrajectoryBuilder",
    "TrajectoryFileError",
    "TrajectoryGroup",
    "TrajectoryWriter",
    "Turn",
    "Unicode",
    "UnknownTaskError",
    "count_tokens",
    "export_parquet",
    "iter_trajectories",
    "load_tokenizer",
    "load_trajectories",
    "make_action_format",
    "parse_tool_calls",
    "split_reasoning",
]

# Reading records needs pydantic, a third of the import time, which making an environment does not need.
_LAZY = {"TrajectoryWriter", "export_parquet", "iter_trajectories", "load_trajectories"}


def __getattr__(name: str) -> Any:
    """Import the file format when it is asked for."""
    if name in _LAZY:
        return getattr(importlib.import_module(f"{__name__}.trajectory_files"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
