"""Branches of episodes are read together, and scored as if each were read alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="a head meter needs torch")

from agentgym_ttg.core import Completion, Message, Turn
from agentgym_ttg.meter.config import MeterConfig
from agentgym_ttg.meter.untrained import untrained_meter


def branches_of(trajectory, count):
    """The same episode with other last steps, and the decision behind each."""
    out = []
    for number in range(count):
        said = Completion(f"walk {'on ' * number}back")
        last = replace(trajectory.turns[-1], completion=said)
        behind = Turn((Message("user", f"You are at place {number}."),), Completion(""))
        out.append(replace(trajectory, turns=[*trajectory.turns[:-1], last, behind]))
    return out


@pytest.mark.parametrize("style", ["chat", "transcript"])
@pytest.mark.parametrize("context", [1024, 96])
def test_branches_read_together_score_as_read_alone(tiny_lm, corridor, style, context):
    config = MeterConfig(backbone=str(tiny_lm), style=style, context_length=context, device="cpu")
    meter = untrained_meter(config, failure_cost=100.0)
    asked = [branch for trajectory in corridor(4) for branch in branches_of(trajectory, 4)]
    before = meter.tokens_scored
    together = meter.score_branches(asked)
    packed = meter.tokens_scored - before
    alone = meter.score(asked)
    assert packed < 0.6 * (meter.tokens_scored - before - packed)
    for one, other in zip(together, alone, strict=True):
        a = [[e.can_complete, e.remaining_tokens or -1, e.completion_logit] for e in one]
        b = [[e.can_complete, e.remaining_tokens or -1, e.completion_logit] for e in other]
        np.testing.assert_allclose(a, b, atol=1e-3, rtol=1e-4)


def test_trajectories_that_have_nothing_in_common_are_scored_too(tiny_lm, corridor):
    meter = untrained_meter(MeterConfig(backbone=str(tiny_lm), device="cpu"), failure_cost=100.0)
    asked = corridor(5)
    for one, other in zip(meter.score_branches(asked), meter.score(asked), strict=True):
        np.testing.assert_allclose(
            [e.completion_logit for e in one], [e.completion_logit for e in other], atol=1e-4, rtol=1e-4
        )
