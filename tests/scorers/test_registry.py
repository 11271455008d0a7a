"""Scorers by name; other packages' too."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import numpy as np
import pytest

from agentgym_ttg.core import ConfigError, Trajectory, Turn
from agentgym_ttg.scorers import ENTRY_POINT_GROUP, SCORERS, ScorerKind, ScorerSettings, get_scorer, score_trajectories

OWN = {
    *("ttg", "steps-to-go", "future-score", "progress-advantage"),
    *("mean-logprob", "self-certainty", "deepconf", "llm-judge"),
}


class LengthScorer:
    name = "brief"
    tokens_scored = 0

    def step_scores(self, trajectories):
        return [-np.array([len(turn.completion) for turn in t.turns], dtype=float) for t in trajectories]


BRIEF = ScorerKind("brief", "short messages", "tests", lambda settings: LengthScorer())


def test_every_scorer_is_listed_with_summary_and_source():
    assert set(SCORERS) >= OWN
    assert all(SCORERS[name].summary and SCORERS[name].source and SCORERS[name].name == name for name in OWN)


@pytest.mark.parametrize("name", sorted(name for name in OWN if SCORERS[name].needs))
def test_a_scorer_says_what_it_needs(name):
    with pytest.raises(ConfigError, match=f"{name}.*needs --"):
        get_scorer(name)


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'self-certainty'"):
        get_scorer("self-certanty")


def entry_point(monkeypatch, value):
    point = importlib.metadata.EntryPoint("brief", value, ENTRY_POINT_GROUP)
    real = importlib.metadata.entry_points
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda **kw: [point] if kw.get("group") == ENTRY_POINT_GROUP else real(**kw)
    )


def test_another_package_adds_a_scorer_by_entry_point(monkeypatch):
    monkeypatch.setitem(sys.modules, "brief_package", type(sys)("brief_package"))
    sys.modules["brief_package"].SCORER = BRIEF
    entry_point(monkeypatch, "brief_package:SCORER")
    assert "brief" in SCORERS
    trajectory = Trajectory("e", "t", turns=[Turn((), "ab"), Turn((), "abcd")])
    scores = get_scorer("brief", ScorerSettings()).step_scores([trajectory])
    assert scores[0].tolist() == [-2, -4]
    assert score_trajectories(scores, "min").tolist() == [-4]


@pytest.mark.parametrize(("value", "said"), [("no_such_package:X", "cannot be imported"), ("json:loads", "ScorerKind")])
def test_a_broken_entry_point_is_named(monkeypatch, value, said):
    entry_point(monkeypatch, value)
    with pytest.raises(ConfigError, match=f"(?s)brief.*{said}"):
        get_scorer("brief")


def test_listing_the_scorers_loads_no_model_library():
    code = "import sys, agentgym_ttg.scorers; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
