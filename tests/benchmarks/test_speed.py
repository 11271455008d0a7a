import json

import pytest

from agentgym_ttg.benchmarks.speed import Candidate, benchmarks, main, measure


def test_candidates_take_turns_and_preparation_does_not_count():
    log = []

    def candidate(name):
        return Candidate(lambda given: log.append((name, given)) or 2.0, prepare=lambda: f"for {name}")

    found = measure("m", "unit", {"a": candidate("a"), "b": candidate("b")}, repetitions=3)
    order = [name for name, given in log]
    assert order[:2] == ["a", "b"]  # warm-up
    assert order[2:] == ["a", "b", "b", "a", "a", "b"]
    assert all(given == f"for {name}" for name, given in log)
    assert len(found.candidates["a"].seconds) == 3
    median, low, high = found.ratio("b")
    assert low <= median <= high
    assert found.ratio("a") == (1.0, 1.0, 1.0)


def test_no_unit_of_work_is_an_error():
    with pytest.raises(ValueError, match="no unit"):
        measure("m", "unit", {"a": Candidate(lambda given: 0)})
    with pytest.raises(ValueError, match="expected candidates"):
        measure("m", "unit", {})


def test_alfworld_measures_the_native_engine_and_says_why_the_other_is_left_out(capsys):
    flags = ["alfworld", "--games", "1", "--steps", "4", "--repetitions", "1", "--native-only"]
    assert main([*flags, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["results"]] == ["reset", "step", "branch"]
    for one in found["results"]:
        assert one["candidates"]["native"]["units_per_second"] > 0
        assert one["skipped"] == {"textworld": "left out by --native-only"}
    assert main(flags) == 0
    shown = capsys.readouterr().out
    assert "native" in shown
    assert "skipped" in shown


def test_alfworld_with_textworld(capsys):
    pytest.importorskip("alfworld", reason="the extra 'alfworld' is not installed")
    flags = ["alfworld", "--games", "1", "--steps", "3", "--repetitions", "1", "--json"]
    assert main(flags) == 0
    for one in json.loads(capsys.readouterr().out)["results"]:
        assert one["candidates"]["textworld"]["native_is_faster_by"]["median"] > 1
        if one["name"] == "step":
            assert one["notes"] == ["text and admissible commands differ at 0 of 3 steps"]


def test_unknown_benchmark_and_bad_options(capsys):
    assert "alfworld" in benchmarks()
    assert main(["alfword"]) == 2
    assert "'alfworld'" in capsys.readouterr().err
    assert main(["alfworld", "--games", "0"]) == 2
    assert main([]) == 2
