"""Prompt templates: how an environment's text is put to a model, in a file that anybody can change."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from agentgym_ttg.core.errors import ConfigError, nearest
from agentgym_ttg.core.yaml_files import parse_mapping, read_mapping

__all__ = ["PromptTemplate", "load_template", "shipped_templates"]

_TURN = frozenset({"task", "history", "observation", "admissible_actions", "step", "taken", "shown"})
_FIELDS: dict[str, frozenset[str]] = {
    "first": _TURN,
    "turn": _TURN,
    "reply": frozenset({"observation", "admissible_actions", "step", "taken", "task"}),
    "history_item": frozenset({"step", "observation", "action", "message"}),
}


class PromptTemplate(BaseModel):
    """The texts around what the environment says.

    Placeholders are Python format fields without conversions: ``{task}``, ``{observation}`` (the present one),
    ``{admissible_actions}``, ``{step}`` (number of this decision, from 1), ``{taken}`` (decisions before it),
    ``{history}`` (the last pairs, each written by ``history_item``) and ``{shown}`` (how many those are).
    ``{{`` and ``}}`` are braces. What is filled in may hold any characters.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    system: str = ""
    """System message, as it is; ``""`` for none."""
    first: str = "{observation}"
    """User message of the first decision."""
    turn: str = "{observation}"
    """User message of every later decision, windowed form."""
    reply: str = "{observation}"
    """User message that answers an action, conversation form."""
    history_item: str = "[Observation {step}: '{observation}', Action {step}: '{action}']"
    """One (observation, action) pair; ``{action}`` is the command without reasoning and tags, ``{message}`` the
    whole message."""
    history_separator: str = "\n"
    """Between the pairs."""
    admissible_separator: str = "\n"
    """Between the admissible actions."""
    task_pattern: str = ""
    """Regular expression whose first group is the task in the first observation; ``""`` takes all of it."""

    @field_validator("first", "turn", "reply", "history_item")
    @classmethod
    def _known_placeholders(cls, text: str, info: Any) -> str:
        allowed = _FIELDS[info.field_name]
        for _, name, spec, conversion in string.Formatter().parse(text):
            if name is None:
                continue
            if name not in allowed:
                hint = nearest(name, allowed, 1)
                raise ValueError(
                    f"unknown placeholder {{{name}}}; expected "
                    + ", ".join(f"{{{known}}}" for known in sorted(allowed))
                    + (f" (did you mean {{{hint[0]}}}?)" if hint else "")
                    + "; write {{ and }} for braces"
                )
            if spec or conversion:
                raise ValueError(f"placeholder {{{name}}} takes no format or conversion")
        return text

    @field_validator("task_pattern")
    @classmethod
    def _one_group(cls, pattern: str) -> str:
        if pattern:
            try:
                groups = re.compile(pattern).groups
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from error
            if groups < 1:
                raise ValueError("expected a regular expression with a group, the task")
        return pattern

    def task_of(self, observation: str) -> str:
        """Return the task that the first observation states."""
        match = re.search(self.task_pattern, observation) if self.task_pattern else None
        return (match.group(1) if match else observation).strip()

    def admissible(self, actions: Sequence[str]) -> str:
        """Return the admissible actions as text."""
        return self.admissible_separator.join(actions)


def shipped_templates() -> list[str]:
    """Return the names of the templates that come with the package."""
    folder = resources.files("agentgym_ttg.wrappers") / "prompts"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


@lru_cache(maxsize=64)
def load_template(source: str = "default") -> PromptTemplate:
    """Load a template.

    Args:
        source: A YAML file; the name of a shipped template; or an environment's id, which takes the template shipped
            for it and ``default`` where there is none.

    Raises:
        ConfigError: If the file is not there, is no YAML mapping, or does not have a template's fields.

    >>> load_template("agentgym_ttg/ALFWorld-v0").task_of("Welcome. Your task is to: find a cup.")
    'find a cup.'
    """
    path = Path(source).expanduser()
    is_file = path.suffix.lower() in (".yaml", ".yml")
    if is_file:
        fields = read_mapping(path, "the prompt template")
    else:
        # An environment's id is namespace/Name-v0; a shipped template bears the lower-case name.
        name = re.sub(r"-v\d+\Z", "", source.rsplit("/", 1)[-1].rsplit(":", 1)[-1]).lower()
        known = shipped_templates()
        if name not in known:
            if "/" not in source and not re.search(r"-v\d+\Z", source):
                raise ConfigError(
                    f"unknown prompt template {source!r}; expected a .yaml file, an environment's id, or one of "
                    + ", ".join(known)
                )
            name = "default"
        text = (resources.files("agentgym_ttg.wrappers") / "prompts" / f"{name}.yaml").read_text(encoding="utf-8")
        fields = parse_mapping(text, f"the prompt template {source!r}")
    if not fields:
        raise ConfigError(f"prompt template {source!r}: expected a mapping of fields, got nothing")
    try:
        return PromptTemplate.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            message = f"unknown field; expected one of {', '.join(PromptTemplate.model_fields)}"
        raise ConfigError(f"prompt template {source!r}, {where}: {message}") from error
