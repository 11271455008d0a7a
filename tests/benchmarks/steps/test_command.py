"""The command as users call it, on recorded and on freshly sampled trajectories."""

import json

import numpy as np
import pytest

from agentgym_ttg.benchmarks.steps.command import main
from agentgym_ttg.benchmarks.steps.trajectories import blind_scorers
from agentgym_ttg.core import Completion, Message, Trajectory, TrajectoryWriter, Turn, load_trajectories
from agentgym_ttg.scorers import SCORERS, ScorerKind, ScorerSettings

_LAST_STEPS = ((("peeker", "reader"), "skip"), (("peeker",), "ask"))


class Reader:
    """Scores a step by a number in its text; it cannot see outcomes."""

    name = "reader"
    tokens_scored = 0

    def step_scores(self, trajectories):
        return [np.array([float(str(turn.completion)) for turn in t.turns]) for t in trajectories]


class Peeker:
    """Gives the outcome away where it is allowed to."""

    name = "peeker"
    tokens_scored = 0

    def __init__(self, allowed):
        self.allowed = allowed

    def step_scores(self, trajectories):
        return [np.full(len(t), float(t.success) if self.allowed else 0.0) for t in trajectories]


@pytest.fixture(autouse=True)
def _scorers(monkeypatch):
    own = dict(SCORERS._own)
    own["reader"] = ScorerKind("reader", "reads numbers", "tests", lambda settings: Reader())
    own["peeker"] = ScorerKind(
        "peeker", "peeks", "tests", lambda settings: Peeker(settings.use_outcome), sees_outcome=True
    )
    monkeypatch.setattr(SCORERS, "_own", own)


@pytest.fixture
def recorded(tmp_path):
    """Thirty tasks of four episodes; the number of the second step is higher in successes."""
    rng = np.random.default_rng(0)
    path = tmp_path / "recorded.jsonl"
    with TrajectoryWriter(path) as writer:
        for task in range(30):
            for _ in range(4):
                won = bool(rng.random() < 0.4)
                numbers = [rng.random(), rng.random() + 0.8 * won, rng.random()]
                turns = [Turn((Message("user", "go"),), Completion(f"{x:.4f}"), tokens=1) for x in numbers]
                writer.write(Trajectory("toy", f"t{task}", "p", turns, "success" if won else "failure", float(won)))
        writer.write(Trajectory("toy", "t0", "p", [], "error", 0.0))
    return path


def run(capsys, *words):
    status = main([str(word) for word in words])
    said = capsys.readouterr()
    assert status == 0, said.err
    return json.loads(said.out)


def test_uncertainty(capsys, recorded, tmp_path):
    out = tmp_path / "out"
    words = ("uncertainty", "--data", recorded, "--scorer", "reader", "peeker", "--resamples", 100, "--json")
    found = run(capsys, *words, "--out", out, "--plot-format", "svg")
    assert found["data"] == {"trajectories": 120, "tasks": 30, "successes": found["data"]["successes"], "steps": 360}
    rows = found["rows"]
    assert rows["reader"]["auroc"]["low"] > 0.6
    first, second = rows["reader"]["early_warning"]
    assert second["auroc"]["value"] > first["auroc"]["value"] + 0.1
    assert rows["peeker"]["auroc"]["value"] == 0.5, "a scorer was shown the outcome"
    assert rows["fewer steps"]["auroc"]["value"] == 0.5
    assert {file.name for file in out.glob("*.svg")} == {"calibration.svg", "early_warning.svg", "heat_map.svg"}


def test_meters_are_summed_and_others_averaged_unless_told(monkeypatch):
    own = dict(SCORERS._own)
    own["meterlike"] = ScorerKind(
        "meterlike", "", "tests", lambda settings, meter=None: Peeker(settings.use_outcome), asks_meter=True
    )
    monkeypatch.setattr(SCORERS, "_own", own)
    names = ("meterlike", "reader")
    assert [one.aggregation for one in blind_scorers(names, ScorerSettings())] == ["sum", "mean"]
    assert [one.aggregation for one in blind_scorers(names, ScorerSettings(), "min")] == ["min", "min"]


def test_what_could_be_the_outcome_is_left_out_unless_asked_for(recorded):
    trajectories = load_trajectories(recorded)[:3]
    (peeker, reader), (asked,) = (blind_scorers(n, ScorerSettings(), None, how) for n, how in _LAST_STEPS)
    for row, trajectory in zip(peeker.scores(trajectories), trajectories, strict=True):
        assert np.isnan(row).tolist() == [False] * (len(trajectory) - 1) + [True]
    assert all(np.isfinite(row).all() for row in [*reader.scores(trajectories), *asked.scores(trajectories)])


def test_best_of_n(capsys, recorded, tmp_path):
    out = tmp_path / "out"
    words = ("best-of-n", "--data", recorded, "--n", 4, "--scorer", "reader", "peeker", "--resamples", 200, "--json")
    found = run(capsys, *words, "--out", out)
    assert found["data"]["tasks"] == 30
    rows = found["rows"]
    picked, chance, best = (
        [point["value"] for point in rows[name]["success"]] for name in ("reader", "random", "oracle")
    )
    assert picked[0] == pytest.approx(chance[0])
    assert best[0] == pytest.approx(chance[0])
    assert all(b >= p for b, p in zip(best, picked, strict=True))
    assert rows["reader"]["ahead_of_random"][-1]["low"] > 0
    assert rows["fewest steps"]["success"][0]["value"] == pytest.approx(chance[0])
    assert abs(rows["peeker"]["ahead_of_random"][-1]["value"]) < 0.2, "a scorer was shown the outcome"
    assert (out / "success_against_n.png").stat().st_size > 1000


def test_best_of_freshly_sampled_trajectories(capsys, tmp_path):
    file = tmp_path / "sampled.jsonl"
    words = [
        *("best-of-n", "--policy", "noisy:0.5", "--tasks", 3, "--n", 2, "--max-steps", 6, "--record", file),
        *("--scorer", "peeker", "--resamples", 20, "--json"),
    ]
    found = run(capsys, *words)
    assert found["data"]["trajectories"] == 6
    lines = file.read_text()
    assert run(capsys, *words) == found
    assert file.read_text() == lines, "what was sampled is sampled again"
    words[words.index("--n") + 1] = 1
    words[words.index("--tasks") + 1] = 2
    assert main([str(word) for word in words]) == 2
    assert "of other settings" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["qualitty", "--data", "x"], "did you mean 'quality'"),
        (["uncertainty", "--data", "nothing.jsonl", "--scorer", "reader"], "cannot read nothing.jsonl"),
        (["best-of-n", "--scorer", "reader"], "either recorded trajectories"),
        (["attribution", "--data", "nothing.jsonl"], "no data at nothing.jsonl"),
    ],
)
def test_mistakes_are_told_in_one_paragraph(capsys, words, message):
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_a_misspelt_scorer_is_told(capsys, recorded):
    assert main(["uncertainty", "--data", str(recorded), "--scorer", "readr"]) == 2
    assert "did you mean 'reader'" in capsys.readouterr().err


def test_one_outcome_only_is_told(capsys, tmp_path):
    with TrajectoryWriter(tmp_path / "all.jsonl") as writer:
        writer.write(Trajectory("toy", "t", "p", [Turn((Message("user", "go"),), Completion("1"))], "success", 1.0))
    assert main(["uncertainty", "--data", str(tmp_path / "all.jsonl"), "--scorer", "reader"]) == 2
    assert "all 1 trajectories succeeded" in capsys.readouterr().err


def test_tables_are_whole_in_a_pipe(capsys, recorded):
    assert main(["best-of-n", "--data", str(recorded), "--n", "4", "--scorer", "reader", "--resamples", "20"]) == 0
    said = capsys.readouterr().out
    assert "ahead of random" in said
    assert "…" not in said


def test_help_lists_the_evaluations(capsys):
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("quality", "attribution", "uncertainty", "best-of-n"))
