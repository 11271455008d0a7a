"""Any server that speaks OpenAI's chat completions, as a policy: vLLM, SGLang, llama.cpp, ``transformers serve``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentgym_ttg.core.completion import Completion
from agentgym_ttg.models.chat_server import ChatQuestion, ChatServer

from .base import GenerationRequest

__all__ = ["OpenAIPolicy"]


class OpenAIPolicy(ChatServer):
    """Acts by asking a :class:`~agentgym_ttg.models.chat_server.ChatServer`; its arguments are that one's.

    Where the server gives no ids, the environment counts tokens by its own tokenizer. The sampling takes place on the
    server, so ``request.rng`` has no say in it.
    """

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Answer every request, in order.

        Raises:
            PolicyError: If the server does not answer one of them in spite of all attempts, or refuses it.
        """
        return self.ask(
            [
                ChatQuestion(
                    request.messages,
                    f"episode {request.episode_id!r}",
                    request.tools,
                    max_tokens=request.sampling.max_tokens,
                    temperature=request.sampling.temperature,
                    top_p=request.sampling.top_p,
                )
                for request in requests
            ]
        )

    def release(self, episode_ids: Iterable[str]) -> None:
        """Nothing is kept, so nothing is forgotten."""
