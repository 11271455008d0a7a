"""From run folders to the numbers of a comparison."""

from __future__ import annotations

import json
import shutil

import pytest
from run_folders import ALFWORLD, SEARCH, write_comparison, write_evaluation, write_meter, write_run

from agentgym_ttg.benchmarks.compare.aggregate import aggregate
from agentgym_ttg.benchmarks.compare.load import load_run_data, load_runs
from agentgym_ttg.benchmarks.compare.settings import changed_settings
from agentgym_ttg.core.errors import ConfigError


def methods_of(runs, **settings):
    (env,) = aggregate(runs, **settings).envs
    return {method.label: method for method in env.methods}


def test_a_run_folder_is_read_as_it_was_written(tmp_path):
    meter = write_meter(tmp_path / "maker")
    run = load_run_data(
        write_run(tmp_path / "run", "deltattg", seed=3, curve=(0.2, 0.4, 0.6), meter_seconds=0.1, meter=str(meter),
                  splits={"valid_unseen": 0.5}, default_cost=240.0)
    )  # fmt: skip
    assert (run.env, run.label, run.seed, run.kind, run.complete) == (ALFWORLD, "deltattg", 3, "train", True)
    assert (run.updates, run.final_success, run.eval_split) == (10, 0.6, "valid_seen")
    assert {name: split.success for name, split in run.splits.items()} == {"valid_unseen": 0.5, "valid_seen": 0.6}
    assert run.splits["valid_seen"].task_types == {"look_at_obj_in_light": 0.6, "pick_and_place": 0.6}
    curve = run.curve()
    assert curve.updates.tolist() == [0, 5, 10]
    assert curve.generated.tolist() == [0, 5000, 10000]
    assert curve.trained.tolist() == [0, 4500, 9000]
    assert curve.values.tolist() == [0.2, 0.4, 0.6]
    account = run.account
    assert (account.generated, account.trained, account.meter_tokens) == (10000, 9000, 7000)
    assert account.update_seconds == pytest.approx(11.0)
    assert account.meter_overhead == pytest.approx(0.1)
    assert account.preparation == pytest.approx(60.0)  # made elsewhere, and charged all the same
    assert account.peak_memory_mb == 503
    assert run.failure_cost == 240
    assert run.meter_source == {"env": ALFWORLD, "env_kwargs": {}}
    assert not run.meter_elsewhere


def test_training_success_is_the_denser_curve(tmp_path):
    run = load_run_data(write_run(tmp_path / "run", curve=(0.2, 0.4), every=3))
    assert run.curve("training").values.tolist() == [0.2, 0.2, 0.2]
    assert run.curve("training").updates.tolist() == [0, 1, 2]


def test_a_run_that_goes_on_is_read_as_far_as_it_is(tmp_path):
    folder = write_run(tmp_path / "run", curve=(0.2, 0.4, 0.6))
    (folder / "results.json").unlink()
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"update": 10, "succ')
    run = load_run_data(folder)
    assert not run.complete
    assert run.updates == 10
    assert run.final_success == 0.6
    (folder / "metrics.jsonl").write_text("no json\n")
    with pytest.raises(ConfigError, match=r"metrics\.jsonl, line 1"):
        load_run_data(folder)


def test_what_is_no_run_is_told(tmp_path):
    with pytest.raises(ConfigError, match="no run folder"):
        load_runs([tmp_path])


def test_runs_that_were_planned_and_never_began_are_missing_not_forgotten(tmp_path):
    jobs = [{"seed": 0}, {"seed": 1, "begun": False}, {"label": "deltattg", "method": "deltattg", "begun": False}]
    found = aggregate(load_runs([write_comparison(tmp_path / "out", jobs)]))
    assert found.incomplete == [f"grpo/seed-1 on {ALFWORLD}", f"deltattg/seed-0 on {ALFWORLD}"]
    (method,) = found.envs[0].methods
    assert method.seeds == (0,)


def test_a_run_that_two_labels_name_counts_for_both(tmp_path):
    out = write_comparison(tmp_path / "out", [{"method": "deltattg"}])
    plan = json.loads((out / "compare.json").read_text())
    plan["jobs"].append({**plan["jobs"][0], "label": "deltattg,rho=0.2"})
    (out / "compare.json").write_text(json.dumps(plan))
    assert [run.label for run in load_runs([out])] == ["deltattg", "deltattg,rho=0.2"]


def test_single_runs_are_called_by_what_they_do_not_share(tmp_path):
    meter = write_meter(tmp_path / "maker", env=SEARCH)
    folders = [
        write_run(tmp_path / "a", "deltattg", seed=0),
        write_run(tmp_path / "b", "deltattg", seed=1),
        write_run(tmp_path / "c", "deltattg", seed=0, rho=0.5, cap=2.0),
        write_run(tmp_path / "d", "grpo", seed=0, out="elsewhere", threads=2),
        write_run(tmp_path / "e", "deltattg", seed=0, meter=str(meter), meter_seconds=0.1),
        tmp_path / "a",  # twice is once
    ]
    runs = load_runs(folders)
    assert [(run.label, run.seed) for run in runs] == [
        ("deltattg", 0),
        ("deltattg", 1),
        ("deltattg,rho=0.5,cap=2.0", 0),
        ("grpo", 0),
        ("deltattg,meter_from=papersearchqa", 0),
    ]
    assert changed_settings(runs[2], runs[0]) == {"rho": 0.5, "cap": 2.0}
    assert changed_settings(runs[1], runs[0]) == {}
    assert runs[4].meter_elsewhere
    with pytest.raises(ConfigError, match="both grpo"):
        load_runs([*folders, write_run(tmp_path / "f", "grpo", seed=0)])


def test_a_comparison_that_was_moved_finds_its_meters(tmp_path):
    out = tmp_path / "out"
    meter = write_meter(out / "shared" / "meter-1", env=SEARCH)
    write_comparison(out, [{"method": "deltattg", "meter": str(meter), "meter_seconds": 0.1}])
    shutil.move(out, tmp_path / "moved")
    (run,) = load_runs([tmp_path / "moved"])
    assert run.meter is not None
    assert run.meter_source == {"env": SEARCH, "env_kwargs": {}}
    assert run.account.preparation == pytest.approx(60.0)


def test_a_meter_that_another_program_made_says_where_it_learned(tmp_path):
    meter = write_meter(tmp_path / "maker", env=SEARCH)
    (tmp_path / "maker" / "config.json").unlink()
    run = load_run_data(write_run(tmp_path / "run", "deltattg", meter=str(meter), meter_seconds=0.1))
    assert run.meter_source == {"env": SEARCH}
    assert run.meter_elsewhere


def test_a_method_without_a_meter_is_charged_none(tmp_path):
    meter = write_meter(tmp_path / "maker")
    run = load_run_data(write_run(tmp_path / "run", "grpo", meter=str(meter)))
    assert run.account.preparation == 0
    assert run.meter is None


def test_numbers_over_seeds_from_folders(tmp_path):
    jobs = []
    for seed, end in enumerate((0.5, 0.6, 0.7)):
        jobs.append({"seed": seed, "curve": (0.2, 0.3, end)})
        jobs.append({"method": "deltattg", "seed": seed, "curve": (0.2, 0.7, end + 0.1), "meter_seconds": 0.05})
        jobs.append({"method": "expert", "seed": seed, "rate": 1.0})
    found = methods_of(load_runs([write_comparison(tmp_path / "out", jobs)]), levels=(0.5, 0.9))
    grpo, ours, expert = found["grpo"], found["deltattg"], found["expert"]
    assert (grpo.kind, expert.kind) == ("train", "evaluate")
    assert grpo.by_seed == {0: 0.5, 1: 0.6, 2: 0.7}
    assert grpo.gain.mean == pytest.approx(0.4)
    assert ours.difference.mean == pytest.approx(0.1)
    assert ours.reference_level["updates"].level == pytest.approx(0.6)
    assert ours.reference_share["updates"].mean.mean == pytest.approx(0.8 * 0.5)  # 0.2 -> 0.7 on a line, at 0.6
    assert ours.reference_share["generated"].mean.mean == pytest.approx(0.4)
    assert (grpo.reference_share["updates"].reached, grpo.reference_share["updates"].n) == (2, 3)
    assert (ours.reaches[0.9]["updates"].reached, ours.reaches[0.9]["updates"].at_least.mean) == (0, 10)
    assert ours.cost.relative.mean == pytest.approx(1.05)
    assert expert.difference.mean == pytest.approx(0.4)
    assert expert.cost.generated.mean == 0


def test_the_references_level_is_measured_on_the_tasks_of_the_curves(tmp_path):
    """The last evaluation may have other tasks than the final one: then it is the curve's end that curves can reach."""
    folder = write_run(tmp_path / "run", curve=(0.2, 0.4))
    results = json.loads((folder / "results.json").read_text())
    (folder / "results.json").write_text(json.dumps(results | {"success_rate": 0.9}))
    found = methods_of(load_runs([folder]))
    assert found["grpo"].final.mean == 0.9
    assert found["grpo"].reference_level["updates"].level == pytest.approx(0.4)
    assert found["grpo"].reference_share["updates"].reached == 1


def test_evaluations_alone_make_a_comparison(tmp_path):
    runs = [write_evaluation(tmp_path / name, name, rate=rate) for name, rate in (("expert", 1.0), ("random", 0.02))]
    found = methods_of(load_runs(runs), reference="random")
    assert found["expert"].difference.mean == pytest.approx(0.98)
    assert found["random"].reference_share["updates"].n == 0


def test_the_json_of_a_comparison_has_no_numbers_that_json_has_not(tmp_path):
    found = aggregate(load_runs([write_run(tmp_path / "run")]))
    text = json.dumps(found.as_json(), allow_nan=False)
    assert json.loads(text)["envs"][0]["methods"][0]["by_seed"] == {"0": 0.6}
