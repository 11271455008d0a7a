"""The golden numbers of the specification for Progress Advantage."""

import json
from pathlib import Path

import numpy as np
import pytest

from agentgym_ttg.core import ConfigError
from agentgym_ttg.scorers import STEP_AGGREGATIONS, TOKEN_AGGREGATIONS, aggregate_steps, aggregate_tokens
from agentgym_ttg.scorers.progress_advantage import progress_advantage

CASE = json.loads((Path(__file__).parents[1] / "data" / "golden.json").read_text())["progress_advantage"]
POLICY, REFERENCE = CASE["logp_policy"], CASE["logp_ref"]
GOLDEN = {"aggregate-first": CASE["official_agg_then_subtract"], "ratio-first": CASE["ratio_then_agg"]}
# The authors' code takes the lowest log-probability of each model: -2.0 and -1.4 here.


@pytest.mark.parametrize("how", TOKEN_AGGREGATIONS)
@pytest.mark.parametrize("order", list(GOLDEN))
def test_progress_advantage(order, how):
    assert progress_advantage(POLICY, REFERENCE, how, order=order) == pytest.approx(GOLDEN[order][how], abs=1e-12)
    doubled = progress_advantage(POLICY, REFERENCE, how, order=order, beta=2.0)
    assert doubled == pytest.approx(2 * GOLDEN[order][how], abs=1e-12)


def test_an_empty_span_scores_zero():
    assert all(progress_advantage([], [], how) == 0 for how in TOKEN_AGGREGATIONS)


def test_step_aggregations_leave_out_what_was_not_scored():
    scores = [4.0, np.nan, 1.0, 3.0]
    assert {how: aggregate_steps(scores, how) for how in STEP_AGGREGATIONS} == {
        "sum": 8.0,
        "mean": pytest.approx(8 / 3),
        "last": 3.0,
        "min": 1.0,
        "max": 4.0,
        "bottom10": 1.0,
    }
    assert aggregate_steps(np.arange(30.0), "bottom10") == 1.0
    assert np.isnan(aggregate_steps([np.nan], "mean"))


def test_an_unknown_aggregation_or_other_tokens_are_refused():
    with pytest.raises(ConfigError, match="expected one of sum, mean"):
        aggregate_tokens([1.0], "median")
    with pytest.raises(ConfigError, match="bottom10"):
        aggregate_steps([1.0], "median")
    with pytest.raises(ConfigError, match="aggregate-first or ratio-first"):
        progress_advantage([1.0], [1.0], order="none")
    with pytest.raises(ValueError, match="the same tokens"):
        progress_advantage([1.0], [1.0, 2.0])
