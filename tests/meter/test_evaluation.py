import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym_ttg.core import Completion, Message, Trajectory, Turn
from agentgym_ttg.meter import Estimate, References, evaluate_meter, label_trajectories, meter_metrics
from agentgym_ttg.meter.metrics import auroc, spearman


class Oracle:
    """Knows the labels; `wrong` distorts them."""

    name = "oracle"
    tokens_scored = 0

    def __init__(self, labels, wrong=lambda estimate: estimate):
        self.labels = {id(label.trajectory): label for label in labels}
        self.wrong = wrong

    def score(self, trajectories):
        out = []
        for trajectory in trajectories:
            label = self.labels[id(trajectory)]
            b = label.can_complete
            out.append(
                [self.wrong(Estimate(b, v if b else None, completion_logit=4.0 if b else -4.0)) for v in label.values]
            )
        return out


@pytest.fixture
def labels(corridor):
    return label_trajectories(corridor(30))


def test_a_perfect_meter_has_perfect_numbers_and_beats_the_references(labels):
    references = References.fit(labels)
    evaluation = evaluate_meter(Oracle(labels), labels, references=references)
    meter = evaluation.meter
    assert (meter.completion_auroc, meter.completion_accuracy, meter.token_accuracy) == (1, 1, 1)
    assert (meter.mean_absolute_error, meter.rank_correlation, meter.reward, meter.invalid) == (0, 1, 1, 0)
    assert evaluation.beats_references
    for pair in evaluation.paired.values():
        assert pair.error[0] == 0 < pair.error[1]
        assert pair.token_accuracy[0] == 1 > pair.token_accuracy[1]
    for b in evaluation.value_calibration:
        assert b.estimate == pytest.approx(b.actual)
    assert sum(b.histories for b in evaluation.completion_calibration) == meter.histories


def test_a_reference_does_not_beat_itself(labels):
    references = References.fit(labels)

    class Constant:
        name, tokens_scored = "constant", 0

        def score(self, trajectories):
            return references.constant.score(trajectories, always=True)

    assert not evaluate_meter(Constant(), labels, references=references).beats_references


def test_invalid_outputs_are_counted_and_never_right(labels):
    broken = Oracle(labels, wrong=lambda estimate: Estimate.invalid())
    metrics = meter_metrics(broken.score([label.trajectory for label in labels]), labels)
    assert (metrics.invalid, metrics.completion_accuracy, metrics.answered, metrics.reward) == (1, 0, 0, -1)
    assert metrics.mean_absolute_error is None
    assert metrics.token_accuracy is None


def test_a_meter_that_denies_hard_histories_gains_nothing(labels):
    shy = Oracle(labels, wrong=lambda e: Estimate(False, None) if (e.remaining_tokens or 0) > 6 else e)
    evaluation = evaluate_meter(shy, labels, references=References.fit(labels))
    assert evaluation.meter.mean_absolute_error == 0
    assert evaluation.meter.answered < 1
    assert evaluation.paired["steps"].histories < evaluation.steps.histories
    assert evaluation.paired["steps"].error[1] < evaluation.steps.mean_absolute_error  # only the easy ones are compared
    assert evaluation.meter.reward < 1


def test_the_step_reference_knows_the_step_index_only():
    def walk(steps, outcome="success"):
        turns = [Turn((Message("user", "?"),), Completion("x"), tokens=10) for _ in range(steps)]
        return Trajectory("toy", "t", "p", turns, outcome)

    labels = label_trajectories([walk(2), walk(4), walk(6, "failure"), walk(6, "failure")])
    steps = References.fit(labels).steps
    assert steps.per_step == 10
    assert steps.remaining_steps[:4] == [3, 2, 2, 1]  # mean of (2, 4), of (1, 3), then of (2,), (1,)
    row = steps.score([walk(9)], always=True)[0]
    assert [e.remaining_tokens for e in row[:4]] == [30, 20, 20, 10]
    assert row[2].completion_logit > row[4].completion_logit  # nobody who was still there at step 4 succeeded
    assert len(row) == 9


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=40))
def test_auroc_is_the_share_of_well_ordered_pairs(pairs):
    good = [s for s, positive in pairs if positive]
    bad = [s for s, positive in pairs if not positive]
    found = auroc([s for s, _ in pairs], [p for _, p in pairs])
    if not good or not bad:
        assert found is None
    else:
        expected = np.mean([(g > b) + 0.5 * (g == b) for g in good for b in bad])
        assert found == pytest.approx(expected)


@settings(deadline=None)
@given(st.lists(st.integers(-50, 50), min_size=2, max_size=30, unique=True))
def test_rank_correlation_of_monotone_values(values):
    order = np.sort(values)
    assert spearman(order, np.exp(order / 10.0)) == pytest.approx(1)
    assert spearman(order, -order) == pytest.approx(-1)
    assert spearman(np.zeros(len(order)), order) == 0
    assert spearman(order, np.zeros(len(order))) is None


def test_lengths_that_do_not_fit_are_refused(labels):
    with pytest.raises(ValueError, match="one estimate for each decision"):
        meter_metrics([[]] * len(labels), labels)
    with pytest.raises(ValueError, match="at least one"):
        meter_metrics([], [])
