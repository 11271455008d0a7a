"""Whether a final message answers the query: by exact match, or by a judge model."""

from __future__ import annotations

import json
import os
import re
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Protocol

from agentgym_ttg.core.errors import ConfigError, EngineError
from agentgym_ttg.envs.papersearchqa.answers import exact_match

__all__ = ["ExactJudge", "FinalAnswer", "Judge", "LLMJudge", "make_judge", "read_answer"]

_EXACT = re.compile(r"^[\s*#]*Exact Answer[*\s]*:[*\s]*(.+?)[*\s]*$", re.IGNORECASE | re.MULTILINE)
_CONFIDENCE = re.compile(r"^[\s*#]*Confidence[*\s]*:[*\s]*([0-9]+(?:\.[0-9]+)?)\s*%?", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """What a final message says.

    Attributes:
        exact: The exact answer, ``""`` where the form was not kept.
        confidence: In [0, 1]; None where none was given.
    """

    exact: str
    confidence: float | None


def read_answer(text: str) -> FinalAnswer:
    r"""Read the answer form; where a field stands several times, the last one counts.

    >>> read_answer("Explanation: [4]\nExact Answer: Lake Ohrid\nConfidence: 80%")
    FinalAnswer(exact='Lake Ohrid', confidence=0.8)
    """
    exact, confidence = _EXACT.findall(text), _CONFIDENCE.findall(text)
    value = min(float(confidence[-1]) / 100, 1.0) if confidence else None
    return FinalAnswer(exact[-1].strip() if exact else "", value)


class Judge(Protocol):
    """Decides whether an answer is right."""

    name: str
    needs_form: bool

    def correct(self, query: str, answer: str, response: str) -> bool:
        """Whether ``response`` gives ``answer`` to ``query``.

        Raises:
            EngineError: If the judge cannot decide.
        """


class ExactJudge:
    """The exact answer, normalised, equals the right one."""

    name = "exact"
    needs_form = True

    def correct(self, query: str, answer: str, response: str) -> bool:
        """Whether the exact answer is right."""
        return exact_match(read_answer(response).exact, [answer])


_PROMPT = """\
Decide whether a response gives the right answer to a question. Go by the given right answer only; do not solve the
question yourself. Small differences of wording or spelling, and of rounding in numbers, do not matter.

Question: {query}

Right answer: {answer}

Response to be judged:
<response>
{response}
</response>

Reply with one JSON object and nothing else: {{"extracted_answer": the final answer of the response or null,
"correct": true or false}}"""
_VERDICT = re.compile(r'"correct"\s*:\s*(true|false)')


class LLMJudge:
    """A model behind an OpenAI-compatible server decides, at temperature 0.

    Args:
        model: Name of the model on the server.
        base_url: Address, such as ``http://localhost:8000/v1``.
        timeout: Seconds to wait for an answer.
        retries: Further attempts on no answer, 429, 5xx, or a verdict that cannot be read.
    """

    needs_form = False

    def __init__(self, model: str, base_url: str, *, timeout: float = 60.0, retries: int = 3) -> None:
        if not model or not base_url.startswith(("http://", "https://")):
            raise ConfigError(f"expected a judge as llm:MODEL@http://HOST:PORT/v1, got {model!r} at {base_url!r}")
        self.name = f"llm:{model}"
        self._model, self._url = model, base_url.rstrip("/") + "/chat/completions"
        self._timeout, self._retries = timeout, retries

    def correct(self, query: str, answer: str, response: str) -> bool:
        """Ask the model.

        Raises:
            EngineError: If it does not answer, or never with a verdict.
        """
        prompt = _PROMPT.format(query=query, answer=answer, response=response.replace("</response>", ""))
        content = {"model": self._model, "messages": [{"role": "user", "content": prompt}], "temperature": 0}
        body = json.dumps(content).encode("ascii")
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("OPENAI_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        problem = ""
        for attempt in range(self._retries + 1):
            if attempt:
                time.sleep(0.5 * 2 ** (attempt - 1))
            try:
                request = urllib.request.Request(self._url, data=body, headers=headers)
                with urllib.request.urlopen(request, timeout=self._timeout) as answered:
                    said = str(json.loads(answered.read())["choices"][0]["message"]["content"])
            except urllib.error.HTTPError as error:
                problem = f"status {error.code}"
                if error.code != 429 and error.code < 500:
                    break
                continue
            except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
                problem = f"{type(error).__name__}: {error}"
                continue
            if verdicts := _VERDICT.findall(said):
                return bool(verdicts[-1] == "true")
            problem = f"no verdict in {said[:120]!r}"
        raise EngineError(f"the judge {self._model!r} at {self._url} gave no verdict: {problem}")


def make_judge(spec: str) -> Judge:
    """Make a judge.

    Args:
        spec: ``exact``, or ``llm:MODEL@URL``.

    Raises:
        ConfigError: If it is neither.
    """
    if spec == "exact":
        return ExactJudge()
    if spec.startswith("llm:") and "@" in spec:
        model, _, url = spec.removeprefix("llm:").rpartition("@")
        return LLMJudge(model, url)
    raise ConfigError(f"unknown judge {spec!r}; expected exact or llm:MODEL@http://HOST:PORT/v1")
