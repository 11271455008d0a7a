"""The BrowseComp-Plus environment: hard questions over a fixed corpus, with a search tool."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from agentgym_ttg.core.actions import Action
from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.messages import Message, ToolCall
from agentgym_ttg.core.tool_calls import ToolCallError
from agentgym_ttg.envs._search import Document, Retriever, make_retriever
from agentgym_ttg.envs._search.passages import clip, content_spans
from agentgym_ttg.envs.base import MultiTurnEnv, StepResult
from agentgym_ttg.envs.tasks import Task, TaskSet

from .calibration import calibration_error
from .data import BrowseData, Query, builtin_data, folder_data
from .judges import make_judge, read_answer

__all__ = ["DATA_VARIABLE", "BrowseCompPlusEnv"]

DATA_VARIABLE = "BROWSECOMPPLUS_DATA"
_FORM = """Explanation: {{why, naming the documents by [docid]}}
Exact Answer: {{the answer alone}}
Confidence: {{0 to 100}}%"""
_OPENING = (
    "{query}\n\nSearch the corpus with the tools. When you know the answer, reply without a tool call, as:\n" + _FORM
)
_SEARCH = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Search the corpus. Returns the best documents: docid and the beginning of the text.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What to search for."}},
            "required": ["query"],
        },
    },
}
_GET = {
    "type": "function",
    "function": {
        "name": "get_document",
        "description": "Read a whole document.",
        "parameters": {
            "type": "object",
            "properties": {"docid": {"type": "string", "description": "Id of the document, from a search."}},
            "required": ["docid"],
        },
    },
}


class _State(NamedTuple):
    query: Query
    #: Ids of the documents that came back so far, each once, in order.
    found: tuple[str, ...] = ()
    #: Phrases of what came back last, for scripted policies.
    phrases: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    calls: int = 0


class BrowseCompPlusEnv(MultiTurnEnv):
    """Multi-constraint questions over a fixed corpus, ``agentgym_ttg/BrowseCompPlus-v0``.

    A message with tool calls is answered by one tool message for each call; a message without is the final answer
    (explanation, exact answer, confidence) and ends the episode, with reward 1 if the judge finds it right. The exact
    judge needs the form and asks for it where it is missing. Success depends on the answer only.

    ``info["metrics"]``: ``evidence_recall`` and ``gold_recall`` (share of the labelled documents that any search
    brought back), ``searches``, and at the end ``confidence``, where it was stated. ``info["admissible_actions"]``
    lists a few plausible messages for scripted policies; others are just as legal. The expert is an oracle: it knows
    the evidence documents and searches for each by its first words.

    Args:
        split: ``test``; there is no other.
        data_dir: Folder of published data (see :mod:`.data`). Without it: ``$BROWSECOMPPLUS_DATA`` where that is set,
            else the built-in queries.
        canary: Of the obfuscation, where the data does not tell.
        corpus: Corpus file that does not lie in ``data_dir``.
        retriever: ``bm25``, ``dense:MODEL``, ``http://…`` (see :func:`~agentgym_ttg.envs._search.make_retriever`).
        top_k: Documents for each search.
        snippet_tokens: Tokens of each document that a search shows, counted by ``tokenizer``.
        get_document: Whether the tool ``get_document`` is on offer.
        document_tokens: Tokens of a document that ``get_document`` shows.
        judge: ``exact``, or ``llm:MODEL@URL``; stands in the results as part of the data's name.
        **kwargs: See :class:`~agentgym_ttg.envs.base.MultiTurnEnv`.

    Raises:
        ConfigError: If a setting cannot work.
        DataError: If the data is not there, damaged, or the canary is wrong.
        MissingDependencyError: If the retriever's library is not installed.
    """

    splits: ClassVar[tuple[str, ...]] = ("test",)
    action_formats: ClassVar[tuple[str, ...]] = ("tools",)
    default_max_steps: ClassVar[int] = 100

    def __init__(
        self,
        *,
        split: str = "test",
        data_dir: str | os.PathLike[str] | None = None,
        canary: str = "",
        corpus: str | os.PathLike[str] | None = None,
        retriever: str = "bm25",
        top_k: int = 5,
        snippet_tokens: int = 512,
        get_document: bool = False,
        document_tokens: int = 8192,
        judge: str = "exact",
        **kwargs: Any,
    ) -> None:
        super().__init__(split=split, **kwargs)
        for name, value in (("top_k", top_k), ("snippet_tokens", snippet_tokens), ("document_tokens", document_tokens)):
            if value < 1:
                raise ConfigError(f"expected {name} >= 1, got {value}")
        folder = str(data_dir) if data_dir is not None else os.environ.get(DATA_VARIABLE, "")
        self.top_k, self.snippet_tokens, self.document_tokens = top_k, snippet_tokens, document_tokens
        self.get_document = get_document
        self.judge = make_judge(judge)
        served = "://" in retriever and not retriever.startswith("dense:")
        self.data = _published(folder, canary, str(corpus or ""), not served) if folder else builtin_data()
        self.retriever: Retriever = _retriever(retriever, None if served else self.data)
        self._state: _State | None = None

    def _tasks(self, split: str) -> TaskSet:
        source = f"{self.data.name}, judge {self.judge.name}"
        return TaskSet(split, tuple(self.data.queries), source=source, content_hash=self.data.content_hash)

    @property
    def _now(self) -> _State:
        assert self._state is not None
        return self._state

    def _tools(self) -> list[dict[str, Any]]:
        return [_SEARCH, _GET] if self.get_document else [_SEARCH]

    def _begin(self, task: Task) -> str:
        self._state = _State(self.data.queries[task.id])
        self._metrics = self._measure()
        return _OPENING.format(query=self._now.query.query)

    def _act(self, action: Action) -> StepResult:
        if action.calls:
            replies = [self._call(call) for call in action.calls]
            messages = [message for message, _ in replies]
            return StepResult(messages, valid=all(valid for _, valid in replies), metrics=self._measure())
        answer = read_answer(action.command)
        if self.judge.needs_form and not answer.exact:
            return StepResult("Call a tool, or reply in the expected form:\n" + _FORM.format(), valid=False)
        right = self.judge.correct(self._now.query.query, self._now.query.answer, action.command)
        metrics = self._measure()
        if answer.confidence is not None:
            metrics["confidence"] = answer.confidence
        return StepResult(
            "The answer is right." if right else "The answer is wrong.",
            reward=float(right),
            terminated=True,
            success=right,
            metrics=metrics,
        )

    def _call(self, call: ToolCall | ToolCallError) -> tuple[Message, bool]:
        """Run one call; return the tool's message and whether the call was legal."""
        self._state = self._now._replace(calls=self._now.calls + 1)
        if isinstance(call, ToolCallError):
            return Message("tool", json.dumps({"error": call.message}, ensure_ascii=False), name="error"), False
        argument = {"search": "query", "get_document": "docid"}.get(call.name, "")
        if not argument or (call.name == "get_document" and not self.get_document):
            names = " and ".join(tool["function"]["name"] for tool in self._tools())
            return _reply(call, {"error": f"there is no tool {call.name!r}; there is {names}"}), False
        value = call.arguments.get(argument)
        if isinstance(value, int) and not isinstance(value, bool) and argument == "docid":
            value = str(value)
        if not isinstance(value, str) or set(call.arguments) != {argument}:
            return _reply(call, {"error": f"{call.name} takes one argument, {argument!r}, a string"}), False
        return self._search(call, value) if call.name == "search" else self._read(call, value)

    def _search(self, call: ToolCall, query: str) -> tuple[Message, bool]:
        hits = self.retriever.search(query, self.top_k)
        shown = [
            {
                "docid": hit.document.id,
                "score": round(hit.score, 4),
                "snippet": clip(hit.document.contents, self.snippet_tokens, self.tokenizer),
            }
            for hit in hits
        ]
        state = self._now
        phrases = dict.fromkeys(
            span for hit in shown for span in content_spans(str(hit["snippet"])[:400], most=4) if span[:1].isupper()
        )
        self._state = state._replace(
            found=tuple(dict.fromkeys([*state.found, *(hit.document.id for hit in hits)])),
            phrases=tuple(phrases)[:6],
            queries=(*state.queries, query),
        )
        return _reply(call, shown), True

    def _read(self, call: ToolCall, doc_id: str) -> tuple[Message, bool]:
        document = self.retriever.document(doc_id)
        if document is None:
            return _reply(call, {"error": f"there is no document {doc_id[:80]!r}"}), True
        state = self._now
        self._state = state._replace(found=tuple(dict.fromkeys([*state.found, document.id])))
        text = clip(document.contents, self.document_tokens, self.tokenizer)
        return _reply(call, {"docid": document.id, "text": text}), True

    def _measure(self) -> dict[str, float]:
        state = self._now
        found = set(state.found)
        metrics = {"searches": float(len(state.queries)), "tool_calls": float(state.calls)}
        for name, labels in (("evidence_recall", state.query.evidence), ("gold_recall", state.query.gold)):
            if labels:
                metrics[name] = len(found.intersection(labels)) / len(labels)
        return metrics

    def _admissible_actions(self) -> list[str]:
        state = self._now
        asked = content_spans(state.query.query, most=6)
        searches = [ToolCall("search", {"query": span}).to_hermes() for span in dict.fromkeys([*asked, *state.phrases])]
        return searches + [_final(phrase, 50) for phrase in state.phrases or asked[:1] or ["unknown"]]

    def _expert_message(self) -> str:
        state = self._now
        wanted = dict.fromkeys([*state.query.evidence, *state.query.gold])
        for doc_id in wanted:
            document = self.retriever.document(doc_id) if doc_id not in state.found else None
            if document is not None:
                for words in (10, 40):
                    query = _beginning(document, words)
                    if query not in state.queries:
                        return ToolCall("search", {"query": query}).to_hermes()
        return _final(state.query.answer, 100, "".join(f"[{doc_id}]" for doc_id in wanted))

    def _snapshot(self) -> _State:
        return self._now

    def _restore(self, state: _State) -> None:
        self._state = state

    @staticmethod
    def summarize(episodes: Sequence[tuple[str, bool, Mapping[str, float]]]) -> dict[str, float]:
        """Return the benchmark's own numbers: accuracy, recall of the evidence, calibration error, searches.

        Args:
            episodes: (task type, success, metrics) of each.

        >>> BrowseCompPlusEnv.summarize([("", True, {"evidence_recall": 0.5, "confidence": 1.0})])
        {'accuracy': 1.0, 'evidence_recall': 0.5, 'calibration_error': 0.0}
        """
        out: dict[str, float] = {}
        if episodes:
            out["accuracy"] = sum(success for _, success, _ in episodes) / len(episodes)
        for name in ("evidence_recall", "gold_recall", "searches"):
            values = [metrics[name] for _, _, metrics in episodes if name in metrics]
            if values:
                out[name] = sum(values) / len(values)
        stated = [(metrics["confidence"], success) for _, success, metrics in episodes if "confidence" in metrics]
        if stated:
            out["calibration_error"] = calibration_error(*map(list, zip(*stated, strict=True)))
        return out


def _reply(call: ToolCall, content: Any) -> Message:
    return Message("tool", json.dumps(content, ensure_ascii=False), name=call.name, tool_call_id=call.id)


def _final(answer: str, confidence: int, why: str = "from the documents found") -> str:
    return f"Explanation: {why}\nExact Answer: {answer}\nConfidence: {confidence}%"


def _beginning(document: Document, words: int) -> str:
    return " ".join(document.contents.split()[:words])


@functools.lru_cache(maxsize=4)
def _published(folder: str, canary: str, corpus: str, needs_corpus: bool) -> BrowseData:
    path = Path(os.path.expandvars(folder)).expanduser()
    corpus_path = Path(corpus).expanduser() if corpus else None
    return folder_data(path, canary=canary, corpus=corpus_path, needs_corpus=needs_corpus)


_RETRIEVERS: dict[tuple[str, str, str], Retriever] = {}


def _retriever(spec: str, data: BrowseData | None) -> Retriever:
    """Share an open index between the environments of a process."""
    if data is None:
        return make_retriever(spec, None)
    key = (spec, data.content_hash, os.environ.get("AGENTGYM_TTG_CACHE", ""))
    if key not in _RETRIEVERS:
        _RETRIEVERS[key] = make_retriever(spec, data.corpus)
    return _RETRIEVERS[key]
