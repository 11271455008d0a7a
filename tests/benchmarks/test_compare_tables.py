"""What a comparison says of its runs; the numbers are such that the answers are known."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from agentgym_ttg.benchmarks.compare.aggregate import aggregate
from agentgym_ttg.benchmarks.compare.load import ComputeAccount, RunData, SplitResult
from agentgym_ttg.benchmarks.compare.tables import as_csv, as_markdown, rich_tables, sheets

UPDATES = 10


def run(label, seed, final, *, speed=1.0, seconds=10.0, meter=0.0, complete=True, env="e/Env-v0"):
    """A run that climbs from 0 to ``final`` on a line, ``speed`` times as fast as it has updates, and stays there."""
    evaluations = [{"update": u, "eval_success": min(1.0, u * speed / UPDATES) * final} for u in range(UPDATES + 1)]
    metrics = [{"update": u, "actor_tokens": 100 * (u + 1), "trained_tokens": 90} for u in range(UPDATES)]
    split = SplitResult("test", 50, final, 0.0, 1.0, 5.0, 20.0, 0, {"easy": final, "hard": 0.0}, {"score": 2 * final})
    account = ComputeAccount(
        generated=100 * UPDATES,
        trained=90 * UPDATES,
        meter_tokens=7 if meter else 0,
        seconds={"rollout": seconds / 2, "update": seconds / 2, "meter_scoring": meter},
        preparation=30.0 if meter else 0.0,
        peak_memory_mb=100.0 + seed,
    )
    return RunData(
        path=Path(f"{label}/{seed}"),
        env=env,
        label=label,
        method=label.split(",")[0],
        seed=seed,
        kind="train",
        complete=complete,
        updates=UPDATES,
        config={},
        evaluations=evaluations,
        metrics=metrics,
        splits={"test": split},
        eval_split="test",
        account=account,
    )


FINALS = (0.4, 0.5, 0.6)
RUNS = [
    *(run("grpo", seed, final) for seed, final in enumerate(FINALS)),
    *(run("deltattg", seed, final + 0.1, speed=2.0, seconds=10.0, meter=0.4) for seed, final in enumerate(FINALS)),
    run("slow", 0, 0.3, seconds=20.0),
    run("slow", 1, 0.3, seconds=20.0, complete=False),
]


@pytest.fixture(scope="module")
def comparison():
    return aggregate(RUNS, reference="grpo")


@pytest.fixture(scope="module")
def methods(comparison):
    (env,) = comparison.envs
    assert env.reference == "grpo"
    return {method.label: method for method in env.methods}


def test_success_is_a_mean_over_seeds_with_its_interval(methods):
    final = methods["grpo"].final
    assert (final.mean, final.n) == (pytest.approx(0.5), 3)
    assert final.low < 0.4 < 0.6 < final.high  # three seeds say little
    assert methods["grpo"].seeds == (0, 1, 2)
    assert methods["grpo"].before.mean == 0
    assert methods["grpo"].task_types["easy"].mean == pytest.approx(0.5)
    assert methods["grpo"].scores["score"].mean == pytest.approx(1.0)


def test_differences_are_paired_by_seed(methods):
    assert methods["grpo"].difference is None
    found = methods["deltattg"].difference
    # The seeds differ by far more than the methods: only pairing sees that each seed gains exactly a tenth.
    assert (found.mean, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1))
    assert found.seeds == (0, 1, 2)
    assert methods["slow"].difference.mean == pytest.approx(0.3 - 0.4)
    assert methods["slow"].difference.unpaired == (1, 2)


def test_what_it_took_to_reach_what_the_reference_ends_with(methods):
    level = 0.5
    shares = methods["deltattg"].reference_share
    expected = [level / (final + 0.1) / 2 for final in FINALS]  # on its line, at twice the speed
    assert shares["updates"].mean.mean == pytest.approx(sum(expected) / 3)
    assert shares["generated"].mean.mean == pytest.approx(sum(expected) / 3)
    assert methods["deltattg"].reference_level["generated"].mean.mean == pytest.approx(1000 * sum(expected) / 3)
    # One seed of the reference itself ends below its mean: that is told, not left out.
    grpo = methods["grpo"].reference_share["updates"]
    assert (grpo.reached, grpo.n) == (2, 3)
    assert grpo.at_least.mean == pytest.approx((1 + 1 + 0.5 / 0.6) / 3)
    assert methods["slow"].reference_share["updates"].reached == 0


def test_the_compute_account(methods):
    cost = methods["deltattg"].cost
    assert methods["grpo"].cost.relative.mean == pytest.approx(1)
    assert cost.meter_overhead.mean == pytest.approx(0.04)
    assert cost.relative.mean == pytest.approx(1.04)
    assert cost.relative_with_preparation.mean == pytest.approx(4.04)
    assert (cost.generated.mean, cost.trained.mean, cost.meter_tokens.mean) == (1000, 900, 7)
    assert cost.peak_memory_mb == 102
    assert methods["slow"].cost.relative.mean == pytest.approx(2)


def test_a_run_that_is_not_complete_is_named_and_left_out(comparison, methods):
    assert comparison.incomplete == ["slow/seed-1 on e/Env-v0"]
    assert methods["slow"].seeds == (0,)
    assert "slow/seed-1 on e/Env-v0" in as_markdown(comparison)


def test_the_order_of_runs_changes_no_number(methods):
    shuffled = aggregate(RUNS[::-1], reference="grpo")
    found = {method.label: method for method in shuffled.envs[0].methods}
    for label, method in methods.items():
        assert found[label].final.mean == method.final.mean
        assert found[label].difference == method.difference
        assert found[label].seeds == method.seeds


def test_environments_and_a_missing_reference_stay_apart():
    found = aggregate([*RUNS, run("other", 0, 0.9, env="e/Second-v0")], reference="grpo")
    assert [(env.env, env.reference) for env in found.envs] == [("e/Env-v0", "grpo"), ("e/Second-v0", None)]
    (other,) = found.envs[1].methods
    assert other.difference is None
    assert other.reference_share == {}
    assert all(len(sheet.head) == len(row) for sheet in sheets(found) for row in sheet.rows)


def test_no_runs_are_an_empty_comparison():
    found = aggregate([])
    assert found.envs == []
    assert as_csv(found) == ""
    assert as_markdown(found).strip() == ""


def test_the_files_say_the_same(comparison):
    numbers = json.loads(json.dumps(comparison.as_json(), allow_nan=False))
    final = numbers["envs"][0]["methods"][1]["final"]
    rows = {row["label"]: row for row in csv.DictReader(io.StringIO(as_csv(comparison)))}
    assert float(rows["deltattg"]["success_mean"]) == pytest.approx(final["mean"]) == pytest.approx(0.6)
    assert rows["slow"]["success_low"] == ""  # one seed has no interval
    text = as_markdown(comparison)
    assert f"{0.6:.1%}" in text
    assert "+10.0 [+10.0, +10.0]" in text
    assert ">= 100% (0/1)" in text
    assert len(list(rich_tables(comparison))) == len(sheets(comparison))


def test_bars_in_names_do_not_break_the_table():
    text = as_markdown(aggregate([run("a|b", 0, 0.5)], reference="a|b"))
    assert any(line.startswith("| a\\|b | 1 |") for line in text.splitlines())
