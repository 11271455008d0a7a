"""The progress meter: what it is, its labels, prompts, training and evaluation.

Meters and their training need torch; they are imported when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import Estimate, ProgressMeter
from .config import MeterConfig
from .evaluation import MeterEvaluation, evaluate_meter
from .labels import Label, label_trajectories, split_tasks
from .loading import load_meter
from .metrics import MeterMetrics, meter_metrics
from .references import References
from .training import MeterReport, train_meter

if TYPE_CHECKING:
    from .generative import GenerativeMeter
    from .head import HeadMeter

__all__ = [
    "Estimate",
    "GenerativeMeter",
    "HeadMeter",
    "Label",
    "MeterConfig",
    "MeterEvaluation",
    "MeterMetrics",
    "MeterReport",
    "ProgressMeter",
    "References",
    "evaluate_meter",
    "label_trajectories",
    "load_meter",
    "meter_metrics",
    "split_tasks",
    "train_meter",
]

_LAZY = {"HeadMeter": "head", "GenerativeMeter": "generative"}


def __getattr__(name: str) -> Any:
    """Import the classes that need torch on first use."""
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
