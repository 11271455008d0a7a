"""Meters of step quality: splits, labels, frozen backbones, and the whole command."""

import json
from collections import Counter

import numpy as np
import pytest

from agentgym_ttg.benchmarks.steps.agentprocessbench import read_record
from agentgym_ttg.benchmarks.steps.command import main
from agentgym_ttg.benchmarks.steps.folds import make_folds
from agentgym_ttg.benchmarks.steps.heads import StepPotentials, failure_penalties, make_labels
from agentgym_ttg.benchmarks.steps.records import LabelledTrajectory, load_records
from agentgym_ttg.core import Completion, Message, Trajectory, Turn
from agentgym_ttg.core.errors import DataError


def one(query, *, source="a", words=(2, 3), success=True):
    turns = [Turn((Message("user", "go"),), Completion(" ".join("x" * n)), "seen") for n in words]
    trajectory = Trajectory(source, f"{source}/{query}", "", turns, "success" if success else "failure", float(success))
    return LabelledTrajectory(trajectory, np.ones(len(words), dtype=np.int64), source, f"{source}/{query}")


def count(text):
    return len(text.split())


def test_folds_by_question_test_everything_once_and_tear_nothing_apart():
    records = [one(query, success=sample < 3) for query in range(11) for sample in range(5)]
    folds = make_folds(records, "auto", folds=5, seed=3)
    assert Counter(i for fold in folds for i in fold.test) == Counter(range(len(records)))
    for fold in folds:
        parts = [{records[i].query for i in part} for part in (fold.train, fold.validation, fold.test)]
        assert sum(map(len, parts)) == 11
        assert all(parts)
        assert not (parts[0] & parts[1] | parts[0] & parts[2] | parts[1] & parts[2])


def test_a_full_set_is_split_as_the_paper_does():
    records = [
        one(query, source=source, success=(query + sample) % 5 < 2)
        for source in "abcd"
        for query in range(50)
        for sample in range(5)
    ]
    (fold,) = make_folds(records, "auto")
    parts = (fold.train, fold.validation, fold.test)
    assert [len(part) for part in parts] == [750, 50, 200]
    assert sorted(i for part in parts for i in part) == list(range(1000))
    for part, share in zip(parts, (0.75, 0.05, 0.2), strict=True):
        strata = Counter((records[i].source, records[i].trajectory.success) for i in part)
        whole = Counter((r.source, r.trajectory.success) for r in records)
        assert all(abs(strata[key] - share * whole[key]) <= 2 for key in whole)


def test_too_few_questions_are_told():
    with pytest.raises(DataError, match="at least 5 questions"):
        make_folds([one(query) for query in range(4)], "query")


def test_a_failure_costs_its_length_and_the_longest_success_of_its_data_set():
    records = [one(0, words=(2, 3)), one(1, words=(4, 4)), one(2, words=(1, 1, 1), success=False)]
    records += [one(3, source="b", words=(9,)), one(4, source="c", words=(1,), success=False)]
    penalties = failure_penalties(records, "tokens", count)
    assert penalties == {"a": 8.0, "b": 9.0, "": 9.0}
    assert failure_penalties(records, "tokens", count, "mean")["a"] == 6.5
    labels = make_labels(records, "tokens", count, penalties)
    assert labels[0].values.tolist() == [5, 3, 0]
    assert labels[2].values.tolist() == [11, 10, 9, 8]
    assert labels[4].values.tolist() == [10, 9]  # no success is known of its data set
    assert all(label.has_values and len(label.values) == len(label.trajectory) for label in labels)
    steps = make_labels(records, "steps", count, failure_penalties(records, "steps", count))
    assert steps[2].values.tolist() == [5, 4, 3, 2]
    assert make_labels(records, "outcome", count, {})[2].values.tolist() == [0, 0, 0, 0]


def test_without_a_success_there_is_no_penalty():
    with pytest.raises(DataError, match="none of the 1 training trajectories succeeded"):
        failure_penalties([one(0, success=False)], "tokens", count)


def test_costs_that_fall_and_scores_that_rise_are_progress():
    costs = StepPotentials(np.array([9.0, 4.0, 6.0]), np.array([2.0, 1.0, 0.0]), falling=True)
    assert costs.deltas().tolist() == [5.0, -2.0]
    assert costs.deltas(outcome=True).tolist() == [5.0, 4.0]
    score = StepPotentials(np.array([0.5, 0.75, 0.5]), np.array([1.0, 1.0, 1.0]), falling=False)
    assert score.deltas().tolist() == [0.25, -0.25]


@pytest.fixture
def meter_parts(labelled_file, tiny_model, tmp_path, one_thread):
    from agentgym_ttg.meter.config import MeterConfig
    from agentgym_ttg.models import load_causal_lm

    records = load_records(labelled_file, read_record)
    labels = make_labels(records, "outcome", count, {})
    base = load_causal_lm(tiny_model, device="cpu")
    config = MeterConfig(
        target="outcome", train="heads", epochs=3, windows_per_epoch=None, completion_weight=0.0, device="cpu"
    ).filled(1, 2)
    return base, labels, config


def test_frozen_backbones_stay_and_kept_states_give_what_the_backbone_gives(meter_parts, tmp_path):
    import torch

    from agentgym_ttg.meter.features import FeatureCache
    from agentgym_ttg.meter.training import fit_head_meter

    base, labels, config = meter_parts
    before = {name: tensor.clone() for name, tensor in base.model.base_model.state_dict().items()}
    cache = FeatureCache(tmp_path / "features")
    meter, epochs = fit_head_meter(base, labels[:24], labels[24:30], config, work=tmp_path, features=cache)
    assert len(epochs) == 3
    assert all(torch.equal(before[name], tensor) for name, tensor in base.model.base_model.state_dict().items())
    assert meter.network.value_head.weight.abs().sum() > 0
    tested = [label.trajectory for label in labels[30:]]
    plain, kept = meter.read(tested)[0], meter.read(tested, cache)[0]
    for one_, other in zip(plain, kept, strict=True):
        np.testing.assert_allclose(one_, other, atol=1e-5)
    meter.save(tmp_path / "meter")
    from agentgym_ttg.meter.head import HeadMeter

    again = HeadMeter.load(tmp_path / "meter", device="cpu").read(tested)[0]
    for one_, other in zip(plain, again, strict=True):
        np.testing.assert_allclose(one_, other, atol=1e-5)


def test_kept_states_are_read_once_and_a_torn_file_again(meter_parts, tmp_path):
    from agentgym_ttg.meter.features import FeatureCache
    from agentgym_ttg.meter.training import fit_head_meter

    base, labels, config = meter_parts
    meter, _ = fit_head_meter(base, labels[:24], labels[24:30], config, work=tmp_path)
    windows = [reading.window for reading in meter.readings([label.trajectory for label in labels[:4]])]
    reads = []

    def look(cache):
        reads.clear()
        found = cache.read(meter.network, windows, device=meter.device, progress=lambda done, total: reads.append(done))
        return found, len(reads)

    folder = tmp_path / "kept"
    first, number = look(FeatureCache(folder))
    assert number
    again, number = look(FeatureCache(folder))
    assert number == 0
    np.testing.assert_array_equal(first[0], again[0])
    sorted(folder.glob("*.npy"))[0].write_bytes(b"torn")
    healed, number = look(FeatureCache(folder))
    assert number
    for a, b in zip(first, healed, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    with_other_weights = meter.network.backbone
    next(with_other_weights.parameters()).data.add_(0.1)
    assert look(FeatureCache(folder))[1]


def run(capsys, *words):
    status = main([str(word) for word in words])
    said = capsys.readouterr()
    assert status == 0, said.err
    return json.loads(said.out)


@pytest.fixture
def quality(labelled_file, tiny_model, tmp_path):
    return [
        *("quality", "--data", labelled_file, "--backbone", tiny_model, "--train", "heads", "--folds", 3, "--json"),
        *(
            "--epochs",
            60,
            "--patience",
            60,
            "--head-learning-rate",
            0.02,
            "--resamples",
            100,
            "--device",
            "cpu",
            "--threads",
            1,
            "--cache",
            tmp_path / "cache",
        ),
    ]


def test_meters_that_see_the_hint_beat_a_coin(capsys, quality, tmp_path, one_thread):
    found = run(capsys, *quality, "--targets", "outcome", "tokens", "--out", tmp_path / "out")
    assert found["data"]["trajectories"] == 90
    assert set(found["rows"]) == {
        *("Future Score", "Future Score, outcome seen", "Token-to-Go", "Token-to-Go, outcome seen"),
        *("majority", "random"),
    }
    score = found["rows"]["Future Score"]["pooled"]
    assert score["balanced"]["low"] > 0.5
    assert score["auroc"]["value"] > 0.6
    assert score["coverage"]["value"] == 1.0
    assert found["rows"]["majority"]["pooled"]["balanced"]["value"] == 0.5
    assert [len(found["trainings"][target]) for target in ("outcome", "tokens")] == [3, 3]
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == found
    assert {file.name for file in (tmp_path / "out").glob("*.png")} == {
        "quality.png",
        "calibration.png",
        "heat_map.png",
    }


def test_the_same_call_gives_the_same_numbers_from_kept_states(capsys, quality, one_thread):
    words = [*quality, "--targets", "steps"]
    assert run(capsys, *words)["rows"] == run(capsys, *words)["rows"]


def test_everything_can_be_trained(capsys, quality, one_thread):
    words = [*quality, "--targets", "outcome"]
    words[words.index("heads")] = "all"
    words[words.index("--epochs") + 1] = 3
    found = run(capsys, *words)
    assert found["rows"]["Future Score"]["pooled"]["accuracy"]["n"] > 0
    assert found["settings"]["train"] == "all"


def test_a_broken_set_ends_the_command_with_one_paragraph(capsys, tmp_path, record):
    del record["step_labels"]["4"]
    (tmp_path / "set.jsonl").write_text(json.dumps(record) + "\n")
    assert main(["quality", "--data", str(tmp_path / "set.jsonl")]) == 2
    assert "set.jsonl, line 1 (toy, query 0, sample 0)" in capsys.readouterr().err
