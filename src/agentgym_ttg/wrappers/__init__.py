"""Gymnasium wrappers: chat prompts, recording, progress credit."""

from .chat import ChatHistory, PromptBuilder, PromptMode
from .recording import RecordTrajectories
from .templates import PromptTemplate, load_template, shipped_templates

__all__ = [
    "ChatHistory",
    "PromptBuilder",
    "PromptMode",
    "PromptTemplate",
    "RecordTrajectories",
    "load_template",
    "shipped_templates",
]
