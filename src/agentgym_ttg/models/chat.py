"""From chat messages to ids that are only ever appended to.

A chat template renders a whole conversation, and rendering it anew at each turn would re-tokenise what the model
sampled (other ids for the same text) and may rewrite it (Qwen3's template drops the ``<think>`` of earlier turns). So
only the first prompt is rendered whole. Later the ids of prompt and completion stay as they are, and what follows a
completion is taken from a rendering of a stand-in conversation with the same new messages: all that stands behind the
stand-in's assistant text.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.messages import Message

__all__ = ["PLAIN_TEMPLATE", "ChatBridge"]

#: For base models whose tokenizer has no chat template.
PLAIN_TEMPLATE = (
    "{{ bos_token or '' }}{% for message in messages %}"
    "{{ message['role'] | capitalize }}:\n{{ message['content'] }}"
    "{{ eos_token if message['role'] == 'assistant' else '' }}\n"
    "{% endfor %}{% if add_generation_prompt %}Assistant:\n{% endif %}"
)

_STAND_IN = "Standin7309"
_PROBE = "Probe4821"
_REMEMBERED = 4096


class ChatBridge:
    """Builds prompts of ids with a tokenizer's chat template, by appending only.

    Roles that the template does not know are carried by those that it does: a system message goes in front of the
    user's first one, a tool message becomes a user message.

    Args:
        tokenizer: A tokenizer of transformers; one without a chat template gets :data:`PLAIN_TEMPLATE`.
        template_kwargs: Further variables of the template, e.g. ``{"enable_thinking": False}``.

    Raises:
        ConfigError: If the template fails on a conversation of user and assistant, or leaves the assistant's text out.

    Attributes:
        end_of_turn_id: The token that the template writes behind an assistant message; None where it is no single
            special token.
        stop_ids: Tokens at which a message ends: the end of turn and the tokenizer's end of text.
    """

    def __init__(self, tokenizer: Any, template_kwargs: Mapping[str, Any] | None = None) -> None:
        self.tokenizer = tokenizer
        self._kwargs = dict(template_kwargs or {})
        self._template = None if getattr(tokenizer, "chat_template", None) else PLAIN_TEMPLATE
        self._known: OrderedDict[tuple[tuple[Message, ...], bool], list[int]] = OrderedDict()
        self._roles = {"user", "assistant"}
        closing = self.encode(self._behind_stand_in([Message("user", _PROBE)]))
        self.end_of_turn_id = closing[0] if closing and closing[0] in self._special_ids() else None
        self.stop_ids = tuple(dict.fromkeys(i for i in (self.end_of_turn_id, tokenizer.eos_token_id) if i is not None))
        for role, conversation in (
            ("system", [Message("system", _PROBE), Message("user", "Hello")]),
            ("tool", [Message("user", "Hello"), Message("assistant", "Hi"), Message("tool", _PROBE)]),
        ):
            if self._shows_probe(conversation):
                self._roles.add(role)

    def first_prompt(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None = None) -> list[int]:
        """Return the ids of a whole conversation and the header of the assistant's next message.

        Raises:
            ConfigError: If the template refuses the messages.
        """
        return self.encode(self._render(messages, tools=tools))

    def extend(self, new_messages: Sequence[Message], completion_ended: bool) -> list[int]:
        """Return the ids that follow a completion.

        Args:
            new_messages: What came back, at least one message.
            completion_ended: Whether the completion's last id is :attr:`end_of_turn_id`. Where it is not (cut off, or
                ended by another token), the assistant's turn is closed first.

        Returns:
            The closing of the assistant's turn, the new messages, the header of the next assistant message.

        Raises:
            ConfigError: If there is no message, or the template refuses them.
        """
        key = (tuple(new_messages), bool(completion_ended))
        if (known := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            return list(known)
        ids = self.encode(self._behind_stand_in(new_messages))
        if completion_ended and self.end_of_turn_id is not None:
            ids = ids[1:]
        self._known[key] = list(ids)
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return ids

    def encode(self, text: str) -> list[int]:
        """Return the ids of rendered text; special tokens are recognised, a lone surrogate reads as U+FFFD."""
        try:
            ids = self.tokenizer.encode(text, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):
            clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            ids = self.tokenizer.encode(clean, add_special_tokens=False)
        return list(ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of a completion, without the stop token at its end.

        Special tokens inside are kept: what the model said is what the environment sees.
        """
        ids = list(ids)
        if ids and ids[-1] in self.stop_ids:
            ids.pop()
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    # Rendering ----------------------------------------------------------------------------------------------------

    def _special_ids(self) -> set[int]:
        return {*self.tokenizer.all_special_ids, *getattr(self.tokenizer, "added_tokens_decoder", {})}

    def _shows_probe(self, messages: Sequence[Message]) -> bool:
        try:
            return _PROBE in self._apply(messages)
        except Exception:  # templates raise what they like
            return False

    def _behind_stand_in(self, new_messages: Sequence[Message]) -> str:
        if not new_messages:
            raise ConfigError("expected at least one message after a completion, got none")
        text = self._render([Message("user", "Hello"), Message("assistant", _STAND_IN), *new_messages])
        _, found, behind = text.partition(_STAND_IN)
        if not found:
            raise ConfigError(
                f"the chat template of {self._name()} leaves out what the assistant said; expected a template that "
                "renders user and assistant messages in order"
            )
        return behind

    def _render(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None = None) -> str:
        plain = self._in_known_roles(messages)
        reason: Exception | None = None
        for attempt in (plain, _join_neighbours(plain)):  # joined for templates that insist on alternating roles
            try:
                return self._apply(attempt, tools)
            except Exception as error:  # templates raise what they like
                reason = reason or error
        roles = ", ".join(message.role for message in messages)
        raise ConfigError(
            f"the chat template of {self._name()} does not take this conversation ({roles}): "
            f"{type(reason).__name__}: {reason}"
        ) from reason

    def _apply(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None = None) -> str:
        return str(
            self.tokenizer.apply_chat_template(
                [message.to_dict() for message in messages],
                tools=[dict(tool) for tool in tools] if tools else None,
                chat_template=self._template,
                add_generation_prompt=True,
                tokenize=False,
                **self._kwargs,
            )
        )

    def _in_known_roles(self, messages: Sequence[Message]) -> list[Message]:
        if "tool" not in self._roles:
            messages = [Message("user", m.content) if m.role == "tool" else m for m in messages]
        if "system" not in self._roles:
            system = [m.content for m in messages if m.role == "system"]
            messages = [m for m in messages if m.role != "system"]
            if system:
                rest = list(messages[1:])
                first = messages[0] if messages else Message("user", "")
                if first.role == "user":
                    return [Message("user", "\n\n".join([*system, first.content])), *rest]
                return [Message("user", "\n\n".join(system)), *messages]
        return list(messages)

    def _name(self) -> str:
        return repr(getattr(self.tokenizer, "name_or_path", "") or type(self.tokenizer).__name__)


def _join_neighbours(messages: Iterable[Message]) -> list[Message]:
    """Join neighbouring messages of one role."""
    out: list[Message] = []
    for message in messages:
        if out and out[-1].role == message.role:
            out[-1] = Message(message.role, f"{out[-1].content}\n{message.content}", out[-1].name)
        else:
            out.append(message)
    return out
