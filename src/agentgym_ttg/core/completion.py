"""What the assistant said, token-exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

__all__ = ["Completion", "FinishReason"]

FinishReason = Literal["stop", "length", "unknown"]
_FIELDS = ("token_ids", "logprobs", "prompt_ids", "finish_reason")


class Completion(str):
    """An assistant message that may carry the ids and log-probabilities it was sampled with.

    A ``str`` subclass, so it is a valid Gymnasium text action as it is; the ids ride along, and nobody has to
    re-tokenise text to count or to train. Equality and hash are those of the text.

    Args:
        text: The decoded message.
        token_ids: The sampled ids, shape ``(n,)``, end-of-turn token included where it was sampled.
        logprobs: Log-probability of each sampled id under the sampling policy, shape ``(n,)``.
        prompt_ids: The exact prompt that the policy read, shape ``(p,)``, where known.
        finish_reason: ``"length"`` if the token limit cut the message off.

    Raises:
        ValueError: If ``logprobs`` is given without ids or does not have one entry for each id.

    >>> said = Completion("go to desk 1", token_ids=[5, 9], logprobs=[-0.1, -0.2])
    >>> said == "go to desk 1", said.token_ids
    (True, (5, 9))
    """

    token_ids: tuple[int, ...] | None
    logprobs: tuple[float, ...] | None
    prompt_ids: tuple[int, ...] | None
    finish_reason: FinishReason

    def __new__(
        cls,
        text: str = "",
        *,
        token_ids: Sequence[int] | None = None,
        logprobs: Sequence[float] | None = None,
        prompt_ids: Sequence[int] | None = None,
        finish_reason: FinishReason = "unknown",
    ) -> Self:
        """Build the string and attach what is known of its tokens."""
        self = super().__new__(cls, text)
        self.token_ids = None if token_ids is None else tuple(int(i) for i in token_ids)
        self.logprobs = None if logprobs is None else tuple(float(p) for p in logprobs)
        self.prompt_ids = None if prompt_ids is None else tuple(int(i) for i in prompt_ids)
        self.finish_reason = finish_reason
        if self.logprobs is not None and (self.token_ids is None or len(self.logprobs) != len(self.token_ids)):
            raise ValueError(
                f"expected one log-probability for each token id, got {len(self.logprobs)} log-probabilities "
                f"and {'no' if self.token_ids is None else len(self.token_ids)} ids"
            )
        return self

    @property
    def truncated(self) -> bool:
        """Whether the token limit cut the message off."""
        return self.finish_reason == "length"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the attached fields (worker processes receive actions by pickle)."""
        return _rebuild, (type(self), str(self), {name: getattr(self, name) for name in _FIELDS})

    def __repr__(self) -> str:
        """Show the text, and how many ids it carries."""
        ids = "" if self.token_ids is None else f", tokens={len(self.token_ids)}"
        return f"Completion({str(self)!r}{ids})"

    def __str__(self) -> str:
        """Return the plain text."""
        return str.__str__(self)


def _rebuild(cls: type[Completion], text: str, fields: dict[str, Any]) -> Completion:
    return cls(text, **fields)
