import json

import pytest

from agentgym_ttg.core import TrajectoryWriter
from agentgym_ttg.meter.cli import main

pytest.importorskip("torch", reason="meters need torch")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory, corridor):
    path = tmp_path_factory.mktemp("recordings") / "toy.jsonl"
    with TrajectoryWriter(path) as writer:
        for trajectory in corridor(40):
            writer.write(trajectory)
    return path


@pytest.fixture(scope="module")
def trained(recordings, tiny_lm, tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "meter"
    arguments = ["--set", "epochs=3", "learning_rate=3.0e-3", "threads=1", "device=cpu"]
    assert main(["train", str(recordings), "--out", str(out), "--backbone", str(tiny_lm), *arguments]) == 0
    return out


def test_train_leaves_a_meter_and_its_report(trained):
    report = json.loads((trained / "report.json").read_text())
    assert report["kind"] == "head"
    assert report["trajectories"]["test"] > 0
    assert {"model.safetensors", "heads.safetensors", "meter.json", "config.json", "tokenizer.json"} <= {
        path.name for path in trained.iterdir()
    }


def test_evaluate_prints_json_and_writes_plots(trained, recordings, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="plots need matplotlib")
    arguments = ["evaluate", str(recordings), "--meter", str(trained), "--out", str(tmp_path / "e"), "--json"]
    assert main(arguments) == 0
    evaluation = json.loads(capsys.readouterr().out)
    report = json.loads((trained / "report.json").read_text())
    assert evaluation["meter"] == pytest.approx(report["test"]["meter"], abs=1e-5)  # the same held-out tasks
    for name in ("calibration.png", "traces.png"):
        assert (tmp_path / "e" / name).read_bytes().startswith(b"\x89PNG")
    traces = json.loads((tmp_path / "e" / "traces.json").read_text())
    assert {trace["outcome"] for trace in traces} == {"success", "truncated"}
    assert json.loads((tmp_path / "e" / "evaluation.json").read_text()) == evaluation


def test_evaluate_prints_a_table(trained, recordings, capsys):
    assert main(["evaluate", str(recordings), "--meter", str(trained), "--split", "all"]) == 0
    out = capsys.readouterr().out
    for text in ("completion AUROC", "token accuracy", "share of invalid outputs", "constant", "steps x mean"):
        assert text in out


def test_score_writes_a_line_for_each_trajectory(trained, recordings, tmp_path, corridor):
    assert main(["score", str(recordings), "--meter", str(trained), "--out", str(tmp_path / "scores.jsonl")]) == 0
    lines = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert [len(line["estimates"]) for line in lines] == [len(t) for t in corridor(40)]
    assert set(lines[0]["estimates"][0]) == {"valid", "can_complete", "remaining_tokens", "completion_logit", "score"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "{file}", "--meter", "nowhere"], "is no folder"),
        (["evaluate", "missing.jsonl", "--meter", "{meter}"], "cannot read"),
        (["train", "{file}", "--set", "epochs=0"], "epochs"),
        (["train", "{file}", "--set", "epoch=3"], "epoch"),
        (["train", "{file}", "--set", "epochs"], "field=value"),
        (["train", "{file}", "--set", "kind=generative", "target=outcome", "--kind", "generative"], "outcome"),
        (["train", "{file}", "--backbone", "no/such/folder/at/all"], "no/such/folder"),
        (["score", "{file}", "--meter", "{meter}", "--out", "{file}/x.jsonl"], "cannot write"),
    ],
)
def test_mistakes_are_explained(arguments, message, recordings, trained, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    filled = [argument.format(file=recordings, meter=trained) for argument in arguments]
    assert main(filled) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert "Traceback" not in error
