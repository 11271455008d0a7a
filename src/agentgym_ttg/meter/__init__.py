"""The progress meter: what it is, its labels, prompts, training and evaluation."""

from .base import Estimate, ProgressMeter

__all__ = ["Estimate", "ProgressMeter"]
