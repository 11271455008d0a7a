"""Gymnasium wrappers: chat prompts, recording, progress credit."""

from .chat import ChatHistory, PromptBuilder, PromptMode
from .progress import ProgressCredit
from .recording import RecordTrajectories
from .templates import PromptTemplate, load_template, shipped_templates

__all__ = [
    "ChatHistory",
    "ProgressCredit",
    "PromptBuilder",
    "PromptMode",
    "PromptTemplate",
    "RecordTrajectories",
    "load_template",
    "shipped_templates",
]
