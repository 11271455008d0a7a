"""Any server that speaks OpenAI's chat completions: vLLM, SGLang, llama.cpp, ``transformers serve``."""

from __future__ import annotations

import contextlib
import email.utils
import json
import math
import os
import threading
import time
import urllib.parse
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym_ttg.core.completion import Completion
from agentgym_ttg.core.errors import ConfigError, MissingDependencyError, PolicyError
from agentgym_ttg.core.messages import Message

from ._openai_wire import describe_tools, read_choice, to_tools, to_wire

__all__ = ["ChatQuestion", "ChatServer"]

_RETRIED = frozenset({408, 409, 425, 429})
#: What is asked for beyond the common core, and words by which a server says that it does not know it.
_EXTRAS: dict[str, tuple[str, ...]] = {
    "token_ids": ("return_token_ids",),
    "logprobs": ("logprobs", "log probabilities"),
    "top_p": ("top_p",),
    "temperature": ("temperature",),
    "max_tokens": ("max_tokens",),
}
_OVERFLOW = ("context_length_exceeded", "maximum context length", "context length", "longer than the maximum model")


@dataclass(frozen=True, slots=True)
class ChatQuestion:
    """One message that is asked for.

    Attributes:
        messages: The chat so far.
        label: What is asked about, for error messages ("episode 'x'").
        tools: JSON schemas of the tools on offer.
        max_tokens: Response limit, in tokens.
        temperature: 0 is greedy.
        top_p: Nucleus mass, in (0, 1].
    """

    messages: Sequence[Message]
    label: str
    tools: Sequence[Mapping[str, Any]] = ()
    max_tokens: int = 512
    temperature: float = 0.0
    top_p: float = 1.0


class ChatServer:
    """Asks an OpenAI-compatible server.

    Questions of one batch run at the same time, ``concurrency`` of them at most. Overload (429), server errors, broken
    answers, lost connections and time-outs are retried after a growing pause, or the one that the server asks for.
    What else fails (wrong key, unknown model) is reported at once.

    Completions carry ids, log-probabilities and prompt ids where the server gives them (vLLM: ``return_token_ids``,
    asked for until the server refuses it). Native tool calls come back as Hermes text. A prompt that is too long for
    the server's model is answered by an empty completion with ``finish_reason="length"``, counted in ``overflows``.

    Args:
        base_url: The server, e.g. ``http://localhost:8000/v1``; ``/v1`` is added to a bare address.
        model: The server's name of the model; None takes the only one it lists.
        api_key: The key; None reads the environment variable.
        api_key_env: That variable. Servers without keys need none.
        name: For the record; default the model's.
        concurrency: Most requests at a time.
        timeout: Seconds without any answer after which an attempt is given up.
        max_retries: Attempts after the first.
        backoff: Seconds of the first pause; it doubles, with jitter, up to ``max_backoff``.
        max_backoff: Longest pause in seconds, also where the server asks for more.
        native_tools: Hand tools over as such; False describes them in the system message instead, for servers without
            a tool parser.
        extra_body: Further fields of each request, e.g. ``{"chat_template_kwargs": {"enable_thinking": False}}``.

    Raises:
        ConfigError: If a setting cannot work, or the server lists several models and none was named.
        MissingDependencyError: If the package ``openai`` is not installed.
        PolicyError: If the server's models had to be asked for and it does not answer.

    Attributes:
        overflows: Questions whose prompt was too long.
        retries: Attempts that failed and were repeated.
        usage: Tokens by the server's own count: ``prompt_tokens``, ``completion_tokens``.
    """

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        *,
        api_key: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        name: str | None = None,
        concurrency: int = 16,
        timeout: float = 120.0,
        max_retries: int = 5,
        backoff: float = 0.5,
        max_backoff: float = 30.0,
        native_tools: bool = True,
        extra_body: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            import openai
        except ImportError as error:
            raise MissingDependencyError("openai", "openai", "talking to an OpenAI-compatible server") from error
        if concurrency < 1 or max_retries < 0 or not timeout > 0 or backoff < 0:
            raise ConfigError(
                "expected concurrency >= 1, max_retries >= 0, timeout > 0 and backoff >= 0, got "
                f"{concurrency}, {max_retries}, {timeout} and {backoff}"
            )
        self.base_url = _address(base_url)
        self.concurrency = concurrency
        self.max_retries = max_retries
        self.backoff = backoff
        self.max_backoff = max_backoff
        self.native_tools = native_tools
        self.extra_body = dict(extra_body or {})
        self.overflows = 0
        self.retries = 0
        self.usage = {"prompt_tokens": 0, "completion_tokens": 0}
        self._openai = openai
        self._key = api_key or os.environ.get(api_key_env) or "EMPTY"
        # Retries are our own: they tell who asked what, and they end when the batch does.
        self._client = openai.OpenAI(
            base_url=self.base_url,
            api_key=self._key,
            max_retries=0,
            timeout=openai.Timeout(timeout, connect=min(timeout, 10.0)),
        )
        self._lock = threading.Lock()
        self._refused: set[str] = set()
        self.model = model or self._only_model()
        self.name = name or self.model

    def ask(self, questions: Sequence[ChatQuestion]) -> list[Completion]:
        """Return the answer to every question, in order.

        Raises:
            PolicyError: If the server does not answer one of them in spite of all attempts, or refuses it.
        """
        stop = threading.Event()
        answers: list[Completion | None] = [None] * len(questions)
        errors: list[Exception] = []
        todo = iter(range(len(questions)))
        finished = threading.Semaphore(0)

        def work() -> None:
            while not stop.is_set():
                with self._lock:
                    index = next(todo, None)
                if index is None:
                    return
                try:
                    answers[index] = self._answer(questions[index], stop)
                except Exception as error:
                    errors.append(error)
                finished.release()

        # Daemons: a process that is interrupted does not wait for a server that hangs.
        for _ in range(min(self.concurrency, len(questions))):
            threading.Thread(target=work, name="chat-server", daemon=True).start()
        try:
            for _ in questions:
                finished.acquire()
                if errors:
                    raise errors[0]
        finally:
            stop.set()  # also when interrupted: nobody goes on asking for a batch that is given up
        return [answer for answer in answers if answer is not None]

    def close(self) -> None:
        """Close the connections; closing twice is fine."""
        self._client.close()

    def __repr__(self) -> str:
        """Show server and model, never the key."""
        return f"{type(self).__name__}({self.base_url!r}, {self.model!r})"

    # One question -------------------------------------------------------------------------------------------------

    def _answer(self, question: ChatQuestion, stop: threading.Event) -> Completion:
        last = "no attempt"
        attempt = 0
        while True:
            asked = frozenset(self._refused)
            pause: float | None = None
            try:
                return self._ask_once(question, asked)
            except self._openai.APIStatusError as error:
                last = f"HTTP {error.status_code}: {_shorten(str(error.message))}"
                if error.status_code in (400, 422):
                    if any(word in _body(error) for word in _OVERFLOW):
                        with self._lock:
                            self.overflows += 1
                        return Completion("", token_ids=(), logprobs=(), finish_reason="length")
                    if self._give_up_an_extra(_body(error), asked):
                        continue
                if "insufficient_quota" in _body(error) or not self._worth_retrying(error.status_code):
                    raise self._error(question, attempt + 1, last, error.status_code) from None
                pause = _retry_after(error.response.headers)
            except self._openai.APIError as error:  # connection lost, time-out
                cause = error.__cause__
                last = f"{type(error).__name__}: {error.message}" + (f" ({cause})" if cause is not None else "")
            except ValueError as error:  # garbage
                last = f"an answer that cannot be read: {_shorten(str(error))}"
            if attempt >= self.max_retries:
                raise self._error(question, attempt + 1, last) from None
            if pause is None:
                pause = self.backoff * 2.0**attempt * _jitter(question.label, attempt)
            attempt += 1
            with self._lock:
                self.retries += 1
            if stop.wait(min(pause, self.max_backoff)):
                raise PolicyError(f"the batch was given up; last: {self._scrub(last)}")

    def _ask_once(self, question: ChatQuestion, refused: frozenset[str]) -> Completion:
        messages = list(question.messages)
        body: dict[str, Any] = {"model": self.model}
        if question.tools and self.native_tools:
            body["tools"] = to_tools(question.tools)
        elif question.tools:
            system = describe_tools(question.tools)
            if messages and messages[0].role == "system":
                system = f"{messages.pop(0).content}\n\n{system}"
            messages.insert(0, Message("system", system))
        body["messages"] = to_wire(messages, native_tools=self.native_tools)
        body["max_completion_tokens" if "max_tokens" in refused else "max_tokens"] = question.max_tokens
        if "temperature" not in refused:
            body["temperature"] = question.temperature
        if question.top_p < 1 and "top_p" not in refused:
            body["top_p"] = question.top_p
        if "logprobs" not in refused:
            body["logprobs"] = True
        if "token_ids" not in refused:
            body["return_token_ids"] = True
        # All of it as extra_body: fields of the client's own version and others take the same way.
        raw = self._client.chat.completions.with_raw_response.create(
            model=self.model, messages=body.pop("messages"), extra_body={**body, **self.extra_body}
        )
        answer = json.loads(raw.http_response.content)
        if not isinstance(answer, dict):
            raise ValueError(f"expected a JSON object, got {type(answer).__name__}")
        completion = read_choice(answer)
        usage = answer.get("usage")
        if isinstance(usage, dict):
            with self._lock:
                for kind in self.usage:
                    count = usage.get(kind)
                    self.usage[kind] += count if isinstance(count, int) else 0
        return completion

    def _give_up_an_extra(self, said: str, refused: frozenset[str]) -> bool:
        """Leave out from now on what the server objects to; return whether there was something left to leave out."""
        for extra, words in _EXTRAS.items():
            if extra not in refused and any(word in said for word in words):
                with self._lock:
                    self._refused.add(extra)
                return True
        # A server that refuses unknown fields without naming them: drop the uncommon ones first.
        for extra in ("token_ids", "logprobs"):
            if extra not in refused and any(
                word in said for word in ("extra", "unexpected", "unrecognized", "unknown")
            ):
                with self._lock:
                    self._refused.add(extra)
                return True
        return False

    def _worth_retrying(self, status: int) -> bool:
        return status in _RETRIED or status >= 500

    def _error(self, question: ChatQuestion, attempts: int, last: str, status: int = 0) -> PolicyError:
        hint = {
            401: "; check the API key",
            403: "; check the API key",
            404: "; check the address (does it end in /v1?) and the model's name",
        }.get(status, "")
        if status == 400 and question.tools and self.native_tools and "tool" in last.lower():
            hint = "; for a server without a tool parser use native_tools=False"
        return PolicyError(
            self._scrub(
                f"{self.base_url} (model {self.model!r}) did not answer {question.label} after "
                f"{attempts} attempt{'s' if attempts > 1 else ''}; last: {last}{hint}"
            )
        )

    def _scrub(self, text: str) -> str:
        return text if self._key == "EMPTY" else text.replace(self._key, "***")

    def _only_model(self) -> str:
        self.model = ""
        try:
            names = [str(entry.id) for entry in self._client.models.list().data]
        except self._openai.APIError as error:
            raise PolicyError(self._scrub(f"{self.base_url} does not list its models: {error}; name one")) from None
        if len(names) != 1:
            raise ConfigError(f"expected the name of a model; {self.base_url} has: {', '.join(names[:20]) or 'none'}")
        return names[0]


def _address(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(f"expected the server's address as http://host:port/v1, got {url!r}")
    return url.rstrip("/") if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/v1"


def _shorten(text: str, limit: int = 300) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[:limit] + "…"


def _body(error: Any) -> str:
    try:
        return str(error.response.text)[:4000] + str(error.message)
    except Exception:  # a body that cannot be decoded says nothing
        return str(error.message)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the pause that the server asks for, in seconds."""
    value = headers.get("retry-after")
    if not value:
        return None
    with contextlib.suppress(ValueError):
        seconds = float(value)
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        return None


def _jitter(label: str, attempt: int) -> float:
    """Return a factor in [0.5, 1.5) that differs within a batch, so that its questions do not come together."""
    return 0.5 + zlib.crc32(f"{label}/{attempt}".encode()) / 2**32
