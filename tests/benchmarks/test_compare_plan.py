"""What a comparison is going to run, and what its runs share; nothing is started here."""

from __future__ import annotations

import json

import pytest
import yaml
from toy_envs import COUNTING

from agentgym_ttg.benchmarks.compare import main
from agentgym_ttg.benchmarks.compare import plan as planning
from agentgym_ttg.benchmarks.compare.config import parse_comparison, stored_settings
from agentgym_ttg.benchmarks.compare.plan import make_plan
from agentgym_ttg.benchmarks.config import field_names

TOYS = f"toy_envs:{COUNTING}"


@pytest.fixture
def planned(tmp_path):
    """Plan the comparison of some flags."""

    def plan(*flags):
        words = ["--out", str(tmp_path), "--preset", "smoke", "--envs", TOYS, *flags]
        return make_plan(parse_comparison(words, prog="compare", description=""), tmp_path)

    return plan


def runs(plan):
    return [job for job in plan.jobs if job.until is None]


def shared(plan, stage):
    return [job for job in plan.jobs if job.until == stage]


def test_every_method_meets_every_environment_with_every_seed(planned):
    plan = planned("--methods", "grpo", "expert", "--seeds", "3", "5", "--envs", TOYS, "alfworld")
    cells = [(entry["label"], entry["env"], entry["seed"]) for entry in plan.entries]
    assert len(set(cells)) == len(cells) == 8
    assert {entry["path"] for entry in plan.entries} == {
        f"runs/{env}/{method}/seed-{seed}"
        for env in ("counting", "alfworld")
        for method in ("grpo", "expert")
        for seed in (3, 5)
    }
    for job in runs(plan):
        assert job.settings["updates"] == 3
        assert job.path.endswith(f"seed-{job.settings['seed']}")


def test_a_run_under_two_names_is_there_once(planned):
    plan = planned("--methods", "grpo", "deltattg", "--seeds", "0", "--sweep", "rho=0,0.2,1")
    paths = {entry["label"]: entry["path"] for entry in plan.entries}
    assert list(paths) == ["grpo", "deltattg", "deltattg,rho=0", "deltattg,rho=0.2", "deltattg,rho=1"]
    assert paths["deltattg,rho=0.2"] == paths["deltattg"]
    assert len(runs(plan)) == 4


@pytest.mark.parametrize(
    ("flags", "stages"),
    [
        # warm starts, recordings, meters
        (["--methods", "grpo", "dapo", "gigpo"], (1, 0, 0)),
        (["--methods", "grpo", "deltattg"], (1, 1, 1)),
        (["--methods", "deltattg", "deltattg-rho0", "deltattg-positive", "deltattg-logit"], (1, 1, 1)),
        (["--methods", "deltattg", "deltattg-stepstogo", "deltattg-outcome", "deltattg-normtok"], (1, 1, 4)),
        (["--methods", "deltattg-untrained"], (1, 0, 0)),
        (["--methods", "expert", "random"], (0, 0, 0)),
        (["--methods", "deltattg", "--sweep", "rho=0,1", "cap=1,2", "failure_cost=50", "group_size=2"], (1, 1, 1)),
        (["--methods", "deltattg", "--sweep", "meter_epochs=2,3", "meter_layers=1,2"], (1, 1, 5)),
        (["--methods", "deltattg", "--sweep", "recordings=20,40"], (1, 3, 3)),
        (["--methods", "deltattg", "--sweep", "max_steps=6"], (2, 2, 2)),
        (["--methods", "deltattg", "--set", "warm_start_from=/there"], (0, 1, 1)),
        (["--methods", "deltattg", "--set", "meter=/there"], (1, 0, 0)),
        (["--methods", "deltattg", "--envs", TOYS, "alfworld"], (2, 2, 2)),
    ],
)
def test_what_is_made_alike_is_made_once(planned, flags, stages):
    plan = planned("--seeds", "0", "1", "2", "--reference", "deltattg", *flags)
    assert tuple(len(shared(plan, stage)) for stage in ("warm_start", "recordings", "meter")) == stages


def test_runs_are_given_what_they_share(planned, tmp_path):
    plan = planned("--methods", "grpo", "deltattg", "--seeds", "0", "1")
    (meter,) = shared(plan, "meter")
    assert [need.until for need in meter.needs] == ["warm_start", "recordings"]
    for job in runs(plan):
        wants = str(tmp_path / meter.path / "meter") if job.settings["method"] == "deltattg" else None
        assert job.settings["meter"] == wants
        assert (meter in job.needs) == (wants is not None)


def test_the_settings_that_do_not_matter_to_what_is_shared_are_settings():
    for names in (planning._AFTERWARDS, planning._OF_METER, planning._OF_RECORDINGS):
        assert names <= {*field_names(), "api_key_env", "config", "json", "out", "resume"}


def test_a_file_says_all_and_flags_override_it(tmp_path):
    file = tmp_path / "compare.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "methods": ["grpo"],
                "envs": [TOYS],
                "seeds": [1, 2],
                "preset": "smoke",
                "set": {"updates": 7},
                "variants": {"ours": {"method": "deltattg", "rho": 0.5}},
                "env_settings": {TOYS: {"max_steps": 6}},
                "sweep": {"cap": [1, 3]},
                "out": str(tmp_path / "out"),
            }
        )
    )
    config = parse_comparison(["--config", str(file), "--seeds", "4"], prog="compare", description="")
    plan = make_plan(config, tmp_path / "out")
    assert [entry["label"] for entry in plan.entries] == ["grpo", "ours", "deltattg,cap=1", "deltattg,cap=3"]
    ours = next(job for job in runs(plan) if "/ours/" in job.path)
    found = {name: ours.settings[name] for name in ("method", "rho", "updates", "max_steps", "seed", "group_size")}
    assert found == {"method": "deltattg", "rho": 0.5, "updates": 7, "max_steps": 6, "seed": 4, "group_size": 4}

    # The folder knows them all, so that naming it is enough; a flag still overrides.
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "compare.json").write_text(json.dumps({"settings": stored_settings(config), "jobs": []}))
    again = parse_comparison(["--out", str(tmp_path / "out"), "--seeds", "4", "5"], prog="compare", description="")
    assert stored_settings(again) == {**stored_settings(config), "seeds": [4, 5]}


def test_a_meter_can_come_from_elsewhere(tmp_path):
    file = tmp_path / "compare.yaml"
    variants = {
        "from-alfworld": {"method": "deltattg", "meter_from": {"env": "alfworld"}},
        "from-shorter": {"method": "deltattg", "meter_from": {"max_steps": 5}},
    }
    file.write_text(
        yaml.safe_dump({"methods": ["grpo", "deltattg"], "envs": [TOYS], "seeds": [0], "variants": variants})
    )
    words = ["--config", str(file), "--preset", "smoke", "--out", str(tmp_path)]
    plan = make_plan(parse_comparison(words, prog="compare", description=""), tmp_path)
    meters = {job.path.split("/")[2]: job.settings["meter"] for job in runs(plan)}
    assert len(set(meters.values())) == 4
    made = {str(tmp_path / job.path / "meter"): job for job in shared(plan, "meter")}
    assert made[meters["deltattg"]].settings["env"] == TOYS
    assert made[meters["from-alfworld"]].settings["env"] == "agentgym_ttg/ALFWorld-v0"
    assert made[meters["from-shorter"]].settings["max_steps"] == 5
    assert {job.settings["env"] for job in runs(plan)} == {TOYS}
    assert len({job.warm_start for job in runs(plan)}) == 1, "the actors start alike"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--methods", "grpp"], "did you mean 'grpo'"),
        (["--seeds", "1", "1"], "seeds: expected each once"),
        (["--envs", "alfwrld"], "did you mean 'agentgym_ttg/ALFWorld-v0'"),
        (["--set", "updats=3"], "did you mean 'updates'"),
        (["--set", "seed=3"], "'seed' is not for 'set'"),
        (["--sweep", "rho"], "expected NAME=VALUE,VALUE"),
        (["--sweep", "rho=2"], "rho"),
        (["--sweep", "rho=0", "rho=0,1"], "two columns are called 'deltattg,rho=0'"),
        (["--methods", "dapo", "deltattg"], "the reference 'grpo' is none of"),
        (["--cores", "0"], "cores"),
        (["--preset", "huge"], "unknown preset 'huge'"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_started(flags, told, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["--out", str(out), *flags]) == 2
    assert told in capsys.readouterr().err
    assert not out.exists()


def test_a_folder_is_needed(capsys):
    assert main(["--methods", "grpo"]) == 2
    assert "--out" in capsys.readouterr().err


def test_an_unknown_field_of_a_file_is_told_with_the_nearest(tmp_path, capsys):
    (tmp_path / "c.yaml").write_text("method: [grpo]\n")
    assert main(["--config", str(tmp_path / "c.yaml"), "--out", str(tmp_path / "out")]) == 2
    assert "did you mean 'methods'" in capsys.readouterr().err
    (tmp_path / "c.yaml").write_text("variants: {mine: {rho: 1}}\n")
    assert main(["--config", str(tmp_path / "c.yaml"), "--out", str(tmp_path / "out")]) == 2
    assert "variant 'mine': expected its method" in capsys.readouterr().err


def test_a_dry_run_lists_the_jobs_and_starts_nothing(tmp_path, capsys):
    out = tmp_path / "out"
    flags = ["--envs", TOYS, "--preset", "smoke", "--methods", "grpo", "deltattg", "--seeds", "0", "--dry-run"]
    assert main(["--out", str(out), *flags, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["state"] for row in rows] == ["waiting"] * 5
    assert [row["path"].split("/")[0] for row in rows] == ["shared"] * 3 + ["runs"] * 2
    assert main(["--out", str(out), *flags]) == 0
    assert "waiting" in capsys.readouterr().out
    assert not out.exists()
