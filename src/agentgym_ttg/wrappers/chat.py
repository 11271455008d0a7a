"""The prompt of each decision: the whole conversation, or a window of the last turns."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, SupportsFloat, get_args

import gymnasium as gym

from agentgym_ttg.core.actions import split_reasoning
from agentgym_ttg.core.errors import ConfigError, EpisodeError
from agentgym_ttg.core.messages import Message

from .templates import PromptTemplate, load_template

__all__ = ["ChatHistory", "PromptBuilder", "PromptMode"]

PromptMode = Literal["conversation", "windowed"]
_ENCLOSED = re.compile(r"\A<([A-Za-z_]\w*)>((?:(?!</?\1>).)*)</\1>\Z", re.DOTALL)
_ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL)


class _Pair(NamedTuple):
    step: int
    observation: str
    message: str


class PromptBuilder:
    """Composes what the policy reads at each decision of an episode. No environment and no tokenizer in it.

    *conversation*: the chat as it went; with a template, its ``first`` frames the opening and its ``reply`` each
    answer. Every prompt extends the one before it, so a key-value cache can be kept.

    *windowed*: one user message for each decision, rendered from the template with the last ``history_length``
    (observation, action) pairs; the paper's ALFWorld protocol has length 2. Without a template the shipped ``default``.

    Args:
        mode: Which of the two.
        history_length: Pairs in the window; 0 shows none.
        template: The texts; None leaves a conversation as the environment words it.
        system: System message in the place of the template's.

    >>> builder = PromptBuilder(system="Be brief.")
    >>> builder.start([Message("user", "Where is the cup?")])
    >>> builder.push("on the desk", [Message("user", "Right.")])
    >>> [message.role for message in builder.prompt()]
    ['system', 'user', 'assistant', 'user']
    """

    def __init__(
        self,
        mode: PromptMode = "conversation",
        history_length: int = 2,
        template: PromptTemplate | None = None,
        system: str | None = None,
    ) -> None:
        if mode not in get_args(PromptMode):
            raise ConfigError(f"unknown prompt mode {mode!r}; expected one of {', '.join(get_args(PromptMode))}")
        if history_length < 0:
            raise ConfigError(f"expected history_length >= 0, got {history_length}")
        if mode == "windowed" and template is None:
            template = load_template("default")
        self.mode = mode
        self.history_length = history_length
        self.template = template
        self.system = system if system is not None else (template.system if template else "")
        self._chat: list[Message] = []
        self._pairs: deque[_Pair] = deque(maxlen=history_length)
        self._leading: list[Message] = []
        self._task = self._observation = ""
        self._admissible: Sequence[str] = ()
        self._taken = 0
        self._started = False

    def start(self, messages: Sequence[Message], info: Mapping[str, Any] | None = None) -> None:
        """Begin an episode.

        Args:
            messages: What the environment said first.
            info: ``info`` of ``reset``; its ``admissible_actions`` can be shown.
        """
        system = [Message("system", self.system)] if self.system else []
        self._leading = system + [message for message in messages if message.role == "system"]
        opening = [message for message in messages if message.role != "system"]
        self._observation = _text_of(opening)
        self._task = self.template.task_of(self._observation) if self.template else self._observation
        self._admissible = tuple((info or {}).get("admissible_actions", ()))
        self._pairs = deque(maxlen=self.history_length)
        self._taken = 0
        self._started = True
        self._chat = [*self._leading, *self._frame(opening, self.template.first if self.template else None)]

    def push(self, completion: str, messages: Sequence[Message], info: Mapping[str, Any] | None = None) -> None:
        """Add what the assistant said and what came back.

        Raises:
            EpisodeError: If no episode was begun.
        """
        self._check_started()
        said = str(completion)
        self._taken += 1
        self._pairs.append(_Pair(self._taken, self._observation, said))
        self._observation = _text_of(messages)
        self._admissible = tuple((info or {}).get("admissible_actions", ()))
        if self.mode == "conversation":
            self._chat.append(Message("assistant", said))
            self._chat.extend(self._frame(messages, self.template.reply if self.template else None))

    def prompt(self) -> list[Message]:
        """Return the prompt of the present decision.

        Raises:
            EpisodeError: If no episode was begun.
        """
        self._check_started()
        if self.mode == "conversation" or self._taken == 0:
            return list(self._chat)
        assert self.template is not None
        return [*self._leading, Message("user", self._render(self.template.turn))]

    def copy(self) -> PromptBuilder:
        """Return an independent copy; costs one list of references."""
        other = object.__new__(PromptBuilder)
        other.__dict__.update(self.__dict__)
        other._chat = list(self._chat)
        other._pairs = self._pairs.copy()
        return other

    def _check_started(self) -> None:
        if not self._started:
            raise EpisodeError("the prompt has no episode; call start() first")

    def _frame(self, messages: Sequence[Message], text: str | None) -> list[Message]:
        """Put the user's part of the messages into the template's text; tool results stay as they are."""
        if text is None or any(message.role != "user" for message in messages):
            return list(messages)
        return [Message("user", self._render(text))]

    def _render(self, text: str) -> str:
        """Fill in a text of the template. Only the template is parsed for braces, never what is filled in."""
        assert self.template is not None
        item = self.template.history_item
        history = self.template.history_separator.join(
            item.format(
                step=pair.step, observation=pair.observation, action=_command_of(pair.message), message=pair.message
            )
            for pair in self._pairs
        )
        return text.format(
            task=self._task,
            history=history,
            observation=self._observation,
            admissible_actions=self.template.admissible(self._admissible),
            step=self._taken + 1,
            taken=self._taken,
            shown=len(self._pairs),
        )


def _text_of(messages: Sequence[Message]) -> str:
    return "\n\n".join(message.content for message in messages)


def _command_of(message: str) -> str:
    """Return a message without its reasoning: its one ``<action>``, or what the one tag around the rest holds."""
    _, said = split_reasoning(message)
    actions: list[str] = _ACTION.findall(said)
    if len(actions) == 1:
        return actions[0].strip()
    enclosed = _ENCLOSED.match(said)
    return enclosed.group(2).strip() if enclosed else said


class ChatHistory(gym.Wrapper[str, str, str, str], gym.utils.RecordConstructorArgs):
    """Adds ``info["prompt"]``: the chat messages, as dicts, that a policy is to read at this decision.

    Args:
        env: Any :class:`~agentgym_ttg.envs.MultiTurnEnv`, wrapped or not.
        mode: ``"conversation"`` or ``"windowed"``, see :class:`PromptBuilder`.
        history_length: Pairs in the window.
        template: A template file, a shipped name or an environment's id (see :func:`load_template`); None for the
            environment's own words (conversation) or the shipped default (windowed).
        system: System message in the place of the template's.

    Raises:
        ConfigError: If a setting cannot work.
    """

    def __init__(
        self,
        env: gym.Env[str, str],
        mode: PromptMode = "conversation",
        history_length: int = 2,
        template: str | None = None,
        system: str | None = None,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(
            self, mode=mode, history_length=history_length, template=template, system=system
        )
        gym.Wrapper.__init__(self, env)
        loaded = load_template(template) if template is not None else None
        self.builder = PromptBuilder(mode, history_length, loaded, system)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Reset, and begin the prompt."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.builder.start(_messages(info), info)
        return observation, self._with_prompt(info)

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step, and extend the prompt."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.builder.push(action, _messages(info), info)
        return observation, reward, terminated, truncated, self._with_prompt(info)

    def _with_prompt(self, info: dict[str, Any]) -> dict[str, Any]:
        return {**info, "prompt": [message.to_dict() for message in self.builder.prompt()]}

    def snapshot(self) -> Any:
        """Return the present point of the episode, prompt included."""
        return (self.env.get_wrapper_attr("snapshot")(), self.builder.copy())

    def restore(self, snapshot: Any) -> None:
        """Go back to a point of the episode, prompt included."""
        inner, builder = snapshot
        self.env.get_wrapper_attr("restore")(inner)
        self.builder = builder.copy()


def _messages(info: Mapping[str, Any]) -> list[Message]:
    return [Message.from_dict(message) for message in info["messages"]]
