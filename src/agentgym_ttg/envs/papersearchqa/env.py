"""The PaperSearchQA environment: questions that are answered by searching biomedical abstracts."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from agentgym_ttg.core.actions import Action, ActionFormat
from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.envs._search import Document, Retriever, make_retriever
from agentgym_ttg.envs._search.passages import content_spans, show
from agentgym_ttg.envs.base import MultiTurnEnv, StepResult
from agentgym_ttg.envs.tasks import Task, TaskSet

from .answers import exact_match
from .builtin import builtin_data
from .data import HUB_PREFIX, QuestionData, folder_data, hub_data
from .expert import next_move
from .format import SearchFormat
from .questions import Question

__all__ = ["DATA_VARIABLE", "PaperSearchQAEnv"]

DATA_VARIABLE = "PAPERSEARCHQA_DATA"
_SEARCHES = {"train": 2, "test": 5}
_SPARE_STEPS = 3  # the answer, and two messages that go wrong
_MOST_ANSWERS = 8  # that are offered to scripted policies
_LAST = "No searches are left: give the answer now."
_NO_HIT = "No document matches."


class _State(NamedTuple):
    question: Question
    #: Names under which labels may know a shown document, and what was shown of it.
    seen: tuple[tuple[frozenset[str], str], ...] = ()
    titles: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()


class PaperSearchQAEnv(MultiTurnEnv):
    """Question answering with a search engine, ``agentgym_ttg/PaperSearchQA-v0``.

    The first observation is the question. ``<search>query</search>`` is answered by the best ``top_k`` passages inside
    ``<information>``; ``<answer>…</answer>`` ends the episode, with reward 1 if the (last) answer matches a golden one
    exactly after normalisation. ``<think>…</think>`` may precede either. A message in another form, and a search when
    none is left, is answered by a message that says what to do, and costs a step.

    ``info["metrics"]``: ``em``, ``searches``, ``gold_hit_at_3`` (share of the facts needed whose labelled document was
    among the passages shown, at any of the episode's searches; the name is for the default ``top_k``).
    ``info["admissible_actions"]`` lists a handful of plausible actions for scripted policies: searches for the phrases
    of the question, answers with phrases and titles of the passages shown. Other actions are just as legal.

    Args:
        split: ``train`` or ``test``.
        data_dir: Folder of published data (see :mod:`.data`), or ``hub:OWNER/NAME``. Without it:
            ``$PAPERSEARCHQA_DATA`` where that is set, else the built-in questions.
        data: ``"built-in"`` or ``"official"`` settles it; ``"auto"`` is the rule above.
        difficulty: Level of the built-in questions: ``easy``, ``medium`` or ``hard``.
        data_seed: Seed of the built-in questions.
        corpus: Corpus file that does not lie in ``data_dir``.
        retriever: ``bm25``, ``dense:MODEL``, ``http://…`` (see :func:`~agentgym_ttg.envs._search.make_retriever`).
        top_k: Passages for each search.
        max_searches: Searches in an episode; default 2 in ``train`` and 5 in ``test``.
        max_observation_tokens: Tokens of an observation, counted by ``tokenizer``.
        passage_tokens: Tokens of one passage; None leaves it to the share of the observation.
        require_think: Whether a message must reason first.
        **kwargs: See :class:`~agentgym_ttg.envs.base.MultiTurnEnv`; ``max_steps`` is ``max_searches + 3`` by default.

    Raises:
        ConfigError: If a setting cannot work.
        DataError: If the data is not there or damaged.
        MissingDependencyError: If the retriever's library is not installed.
    """

    splits: ClassVar[tuple[str, ...]] = ("train", "test")
    action_formats: ClassVar[tuple[str, ...]] = ("tags",)

    def __init__(
        self,
        *,
        split: str = "train",
        data_dir: str | os.PathLike[str] | None = None,
        data: Literal["auto", "built-in", "official"] = "auto",
        difficulty: str = "easy",
        data_seed: int = 0,
        corpus: str | os.PathLike[str] | None = None,
        retriever: str = "bm25",
        top_k: int = 3,
        max_searches: int | None = None,
        max_observation_tokens: int = 500,
        passage_tokens: int | None = None,
        require_think: bool = False,
        **kwargs: Any,
    ) -> None:
        self.require_think = require_think
        self.max_searches = _SEARCHES.get(split, 2) if max_searches is None else max_searches
        kwargs.setdefault("max_steps", None)
        if kwargs["max_steps"] is None:
            kwargs["max_steps"] = max(self.max_searches, 0) + _SPARE_STEPS
        super().__init__(split=split, **kwargs)
        if self.max_searches < 0:
            raise ConfigError(f"expected max_searches >= 0, got {self.max_searches}")
        for name, value, least in (
            ("top_k", top_k, 1),
            ("max_observation_tokens", max_observation_tokens, 32),
            ("passage_tokens", passage_tokens, 1),
        ):
            if value is not None and value < least:
                raise ConfigError(f"expected {name} >= {least}, got {value}")
        if data not in ("auto", "built-in", "official"):
            raise ConfigError(f"unknown data {data!r}; expected auto, built-in or official")
        if data == "built-in" and data_dir is not None:
            raise ConfigError("data_dir names published data, but data='built-in' was asked for; leave one out")
        folder = str(data_dir) if data_dir is not None else os.environ.get(DATA_VARIABLE, "")
        if data == "official" and not folder:
            raise ConfigError(f"data='official' needs data_dir or ${DATA_VARIABLE}")
        self.top_k = top_k
        self.max_observation_tokens = max_observation_tokens
        self.passage_tokens = passage_tokens
        self.data = (
            builtin_data(difficulty, data_seed)
            if data == "built-in" or not folder
            else _published(folder, str(corpus) if corpus else "", "://" not in retriever)
        )
        self.retriever: Retriever = _retriever(retriever, self.data)
        # What stands around the passages: the frame, and the note that no search is left.
        self._frame_tokens = len(self.tokenizer.encode(_frame([_NO_HIT], last=True)))
        self._state: _State | None = None

    def _make_format(self, name: str) -> ActionFormat:
        if name != "tags":
            raise ConfigError(f"unknown action format {name!r}; PaperSearchQA takes tags")
        return SearchFormat(require_think=self.require_think)

    def _tasks(self, split: str) -> TaskSet:
        ids = tuple(self.data.split(split))
        return TaskSet(split, ids, source=self.data.name, content_hash=self.data.hashes[split])

    @property
    def _now(self) -> _State:
        assert self._state is not None
        return self._state

    @property
    def _searches_left(self) -> int:
        return self.max_searches - len(self._now.queries)

    def _begin(self, task: Task) -> str:
        self._state = _State(self.data.split(self.split)[task.id])
        self._metrics = self._measure()  # so that an episode without any valid message has them too
        return f"Question: {self._now.question.question}"

    def _act(self, action: Action) -> StepResult:
        if action.kind == "answer":
            right = exact_match(action.command, self._now.question.golden_answers)
            return StepResult(
                "The answer is right." if right else "The answer is wrong.",
                reward=float(right),
                terminated=True,
                success=right,
                metrics=self._measure(em=right),
            )
        if self._searches_left <= 0:
            return StepResult(f"{_LAST} Put it between <answer> and </answer>.", valid=False)
        return self._search(action.command)

    def _search(self, query: str) -> StepResult:
        found = [hit.document for hit in self.retriever.search(query, self.top_k)]
        budget = self.max_observation_tokens - self._frame_tokens
        lines = show(found, budget, self.tokenizer, each=self.passage_tokens)
        state = self._now
        self._state = state._replace(
            queries=(*state.queries, query),
            seen=(*state.seen, *((_names(doc), line) for doc, line in zip(found, lines, strict=True))),
            titles=tuple(dict.fromkeys([*state.titles, *(doc.title for doc in found if doc.title.strip())])),
        )
        return StepResult(_frame(lines or [_NO_HIT], last=self._searches_left == 0), metrics=self._measure())

    def _measure(self, em: bool = False) -> dict[str, float]:
        state = self._now
        shown = frozenset[str]().union(*(names for names, _ in state.seen))
        labelled = [hop for hop in state.question.hops if hop.gold]
        metrics = {"em": float(em), "searches": float(len(state.queries))}
        if labelled:
            metrics["gold_hit_at_3"] = sum(bool(hop.gold & shown) for hop in labelled) / len(labelled)
        return metrics

    def _anchor(self) -> str:
        return f"{self._searches_left} searches left\n{self._transcript.last_observation}"

    def _task_type(self) -> str:
        return self._now.question.task_type

    def _admissible_actions(self) -> list[str]:
        state = self._now
        asked = content_spans(state.question.question, most=4)
        actions = []
        if self._searches_left > 0:
            actions = [f"<search>{span}</search>" for span in dict.fromkeys([" ".join(asked), *asked]) if span]
        answers: dict[str, None] = {}
        for _, line in state.seen[-self.top_k :]:
            spans = content_spans(line.split(". ", 1)[-1], most=6)
            answers.update(dict.fromkeys(span for span in spans if span not in asked))
        answers.update(dict.fromkeys(" ".join(content_spans(title)) for title in state.titles[-self.top_k :]))
        answers.pop("", None)
        if not answers and not actions:
            answers = dict.fromkeys(asked or ["unknown"])
        return actions + [f"<answer>{answer}</answer>" for answer in list(answers)[-_MOST_ANSWERS:]]

    def _expert_message(self) -> str:
        state = self._now
        kind, command = next_move(state.question, state.seen, state.queries, self._searches_left)
        return self.format.render(command, kind=kind)

    def _snapshot(self) -> _State:
        return self._now

    def _restore(self, state: _State) -> None:
        self._state = state

    @staticmethod
    def summarize(episodes: Sequence[tuple[str, bool, Mapping[str, float]]]) -> dict[str, float]:
        """Return the benchmark's own numbers: accuracy on original and paraphrased wording, and overall.

        Args:
            episodes: (task type, success, metrics) of each.

        >>> PaperSearchQAEnv.summarize([("a/original", True, {"searches": 1.0}), ("a/paraphrased", False, {})])
        {'accuracy_overall': 0.5, 'accuracy_original': 1.0, 'accuracy_paraphrased': 0.0, 'searches': 1.0}
        """
        groups = {
            "overall": [success for _, success, _ in episodes],
            "original": [success for kind, success, _ in episodes if kind.endswith("original")],
            "paraphrased": [success for kind, success, _ in episodes if kind.endswith("paraphrased")],
        }
        out = {f"accuracy_{name}": sum(group) / len(group) for name, group in groups.items() if group}
        for name in ("searches", "gold_hit_at_3"):
            values = [metrics[name] for _, _, metrics in episodes if name in metrics]
            if values:
                out[name] = sum(values) / len(values)
        return out


def _frame(lines: Sequence[str], *, last: bool) -> str:
    return "<information>\n" + "\n".join(lines) + "\n</information>" + (f"\n{_LAST}" if last else "")


def _names(document: Document) -> frozenset[str]:
    return frozenset(name for name in (document.id, document.source) if name)


@functools.lru_cache(maxsize=4)
def _published(folder: str, corpus: str, needs_corpus: bool) -> QuestionData:
    corpus_path = Path(corpus).expanduser() if corpus else None
    if folder.startswith(HUB_PREFIX):
        return hub_data(folder.removeprefix(HUB_PREFIX), corpus=corpus_path)
    path = Path(os.path.expandvars(folder)).expanduser()
    return folder_data(path, corpus=corpus_path, needs_corpus=needs_corpus)


_RETRIEVERS: dict[tuple[str, str, str], Retriever] = {}


def _retriever(spec: str, data: QuestionData) -> Retriever:
    """Share an open index between the environments of a process."""
    if "://" in spec:
        return make_retriever(spec, None)
    key = (spec, data.corpus.content_hash if data.corpus else "", os.environ.get("AGENTGYM_TTG_CACHE", ""))
    if key not in _RETRIEVERS:
        _RETRIEVERS[key] = make_retriever(spec, data.corpus)
    return _RETRIEVERS[key]
