"""Any causal LM of transformers as a policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentgym_ttg.core.completion import Completion
from agentgym_ttg.core.errors import ConfigError, PolicyError
from agentgym_ttg.core.messages import Message

from .base import GenerationRequest

if TYPE_CHECKING:
    from agentgym_ttg.models.loading import LoadedModel

__all__ = ["HFPolicy"]


@dataclass(slots=True)
class _Chat:
    """An episode as the policy knows it: what it was asked and said, and the ids of all that."""

    messages: list[Message] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    tools: Sequence[Mapping[str, Any]] = ()


class HFPolicy:
    """Samples with a local model; completions carry ids, log-probabilities and the prompt's ids.

    While an episode's requests extend each other, its ids are appended to and its key-value cache is kept. A request
    that does not extend the previous one (a sliding window of the history) is rendered anew, and read again from
    where it departs.

    Temperature, top-p and the response limit come with each request. Log-probabilities are those of the whole
    vocabulary after division by the temperature (temperature 1 for greedy), as TRL's GRPO recomputes them.

    A prompt that leaves no room in the model's context is answered by an empty completion of no tokens with
    ``finish_reason="length"``, counted in ``overflows``: one long episode must not end a run, and what to leave out of
    a prompt is the agent's decision.

    Args:
        model: A spec for :func:`agentgym_ttg.models.loading.load_causal_lm`, or what it returned.
        name: For the record; default the model's path.
        dtype: Of the parameters, if ``model`` is a spec.
        device: Where to put the model, if it is a spec.
        trust_remote_code: Run code that comes with the model, if it is a spec.
        template_kwargs: Further variables of the chat template.
        keep_cache: False reads the whole prompt at each turn; for comparisons.
        max_cache_tokens: Room of the key-value cache, in tokens over all episodes.

    Raises:
        ConfigError: If the model's chat template cannot be used.
        PolicyError: If the model cannot be loaded.

    Attributes:
        overflows: Requests whose prompt left no room in the context.
        stale_prompts: Requests that did not extend their episode's previous one and were rendered anew.
    """

    def __init__(
        self,
        model: str | LoadedModel,
        *,
        name: str | None = None,
        dtype: str = "auto",
        device: str = "auto",
        trust_remote_code: bool = False,
        template_kwargs: Mapping[str, Any] | None = None,
        keep_cache: bool = True,
        max_cache_tokens: int = 1 << 20,
    ) -> None:
        from agentgym_ttg.models.chat import ChatBridge
        from agentgym_ttg.models.decoder import make_decoder
        from agentgym_ttg.models.loading import load_causal_lm

        if isinstance(model, str):
            model = load_causal_lm(model, dtype=dtype, device=device, trust_remote_code=trust_remote_code)
        self.loaded = model
        self.name = name or model.path
        self.bridge = ChatBridge(model.tokenizer, template_kwargs)
        self.stop_ids = tuple(dict.fromkeys([*self.bridge.stop_ids, *model.stop_ids]))
        if not self.stop_ids:
            raise ConfigError(f"{self.name}: neither tokenizer nor chat template names a token that ends a message")
        self.decoder = make_decoder(model.model, self.stop_ids, max_cache_tokens=max_cache_tokens)
        self.keep_cache = keep_cache
        self.overflows = 0
        self.stale_prompts = 0
        self._chats: dict[str, _Chat] = {}

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Answer every request, in order; an episode may occur once.

        Raises:
            PolicyError: If the model breaks down (out of memory, a broken weight).
        """
        from agentgym_ttg.models.decoder import DecodeRequest

        prompts = [self._prompt(request) for request in requests]
        if not self.keep_cache:
            self.decoder.release([request.episode_id for request in requests])
        try:
            decoded = self.decoder.generate(
                [
                    DecodeRequest(
                        key=request.episode_id,
                        prompt_ids=prompt,
                        rng=request.rng,
                        max_tokens=request.sampling.max_tokens,
                        temperature=request.sampling.temperature,
                        top_p=request.sampling.top_p,
                        group=request.group_id,
                    )
                    for request, prompt in zip(requests, prompts, strict=True)
                ]
            )
        except RuntimeError as error:
            raise PolicyError(f"{self.name} cannot answer: {type(error).__name__}: {error}") from error
        out: list[Completion] = []
        for request, prompt, answer in zip(requests, prompts, decoded, strict=True):
            self.overflows += not answer.token_ids
            text = self._text(answer.token_ids)
            self._chats[request.episode_id] = _Chat(
                [*request.messages, Message("assistant", text)], prompt + answer.token_ids, request.tools
            )
            out.append(
                Completion(
                    text,
                    token_ids=answer.token_ids,
                    logprobs=answer.logprobs,
                    prompt_ids=prompt,
                    finish_reason=answer.finish_reason,
                )
            )
        return out

    def release(self, episode_ids: Iterable[str]) -> None:
        """Forget what is kept for these episodes; unknown ids are ignored."""
        episode_ids = list(episode_ids)
        for episode_id in episode_ids:
            self._chats.pop(episode_id, None)
        self.decoder.release(episode_ids)

    def follow(self, leader: str, followers: Iterable[str]) -> None:
        """Let other episodes go on from what one was asked and said: of several candidates, one was executed.

        The ids stay those that were sampled; where a follower's cache departs, it is read again.
        """
        chat = self._chats.get(leader)
        if chat is not None:
            self._chats.update(dict.fromkeys(followers, chat))

    def _prompt(self, request: GenerationRequest) -> list[int]:
        if not request.messages:
            raise ConfigError(f"expected a prompt of at least one message for episode {request.episode_id!r}")
        chat = self._chats.get(request.episode_id)
        if chat is not None:
            known = len(chat.messages)
            extends = len(request.messages) > known and list(request.messages[:known]) == chat.messages
            if extends and list(request.tools) == list(chat.tools):
                ended = chat.ids[-1] == self.bridge.end_of_turn_id
                return chat.ids + self.bridge.extend(request.messages[known:], ended)
            self.stale_prompts += 1
        return self.bridge.first_prompt(request.messages, request.tools)

    def _text(self, ids: Sequence[int]) -> str:
        if ids and ids[-1] in self.stop_ids:
            ids = ids[:-1]
        return self.bridge.decode(ids)
