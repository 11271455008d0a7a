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


def of(capsys, *flags):
    assert main([*flags, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["results"]
    return found


def test_rollout_compares_the_kept_cache_with_reencoding_on_equal_episodes(capsys):
    pytest.importorskip("transformers", reason="the extra 'train' is not installed")
    flags = ["--tasks", "2", "--group-size", "2", "--slots", "4", "--max-steps", "3", "--repeats", "1"]
    found = of(capsys, "rollout", *flags)
    assert list(found["candidates"]) == ["kept cache", "re-encoding"]
    assert found["candidates"]["re-encoding"]["kept cache_is_faster_by_cpu"]["median"] > 0
    assert found["values"]["episodes"] == found["values"]["equal_episodes"] == 4
    assert found["values"]["largest_logprob_difference"] < 1e-5
    assert found["values"]["sampled_tokens"] >= found["values"]["actions"] > 0


def test_meter_scores_alike_in_one_pass_and_tells_its_share_of_an_update(capsys):
    pytest.importorskip("trl", reason="the extra 'train' is not installed")
    flags = ["--trajectories", "2", "--length", "4", "--tasks", "1", "--group-size", "2", "--updates", "1"]
    found = of(capsys, "meter", *flags, "--repeats", "1", "--model", "fresh")
    assert list(found["candidates"]) == ["one pass", "prefix by prefix"]
    assert found["values"]["largest_difference"] < 1e-5
    assert 0 < found["values"]["meter_seconds"] < found["values"]["update_seconds"]
    assert 0 < found["values"]["meter_share"] < 1


def test_both_trainers_take_the_same_step(capsys):
    pytest.importorskip("trl", reason="the extra 'train' is not installed")
    flags = ["--tasks", "2", "--group-size", "2", "--max-steps", "3", "--microbatches", "2", "--repeats", "1"]
    found = of(capsys, "train", *flags)
    assert list(found["candidates"]) == ["AgentTrainer", "GRPOTrainer"]
    assert found["values"]["weights_apart_over_moved"] < 0.01
    assert 0 < found["values"]["trained_tokens"] < found["values"]["tokens"]
    assert main(["train", "--group-size", "3", "--tasks", "1", "--microbatches", "2"]) == 2
    assert "microbatches" in capsys.readouterr().err


def test_guided_measures_branching_and_that_the_ways_play_the_same_episodes(capsys):
    flags = ["guided", "--games", "1", "--steps", "3", "--repetitions", "1", "--native-only", "--without-model"]
    assert main([*flags, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["results"]
    assert [one["name"] for one in found] == ["branching"]
    assert found[0]["skipped"] == {"textworld replay": "left out by --native-only"}
    assert found[0]["values"] == {"equal_episodes_native_replay": 1.0}
    assert found[0]["candidates"]["native snapshot"]["units_per_second"] > 0
