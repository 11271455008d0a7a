"""Credit: pure maths on numbers, from rewards and progress to an advantage for each step and token."""

from .advantages import group_advantages, prediction_advantages
from .broadcast import broadcast_to_tokens, pad_rows
from .dapo import DAPO, is_informative, overlong_penalty
from .deltattg import DeltaTTG, Signal, StepSignal
from .estimators import KEPT_REASONS, AdvantageEstimator, BatchEstimator, CreditReport, GroupEstimator, StepCredit
from .gigpo import GiGPO
from .grpo import GRPO
from .hgpo import HGPO
from .loss import clip_loss
from .reward import prediction_reward, token_accuracy
from .shares import costs_from_estimates, progress_deltas, step_shares, token_to_go
from .weights import bounded_unit_mean_weights

__all__ = [
    "DAPO",
    "GRPO",
    "HGPO",
    "KEPT_REASONS",
    "AdvantageEstimator",
    "BatchEstimator",
    "CreditReport",
    "DeltaTTG",
    "GiGPO",
    "GroupEstimator",
    "Signal",
    "StepCredit",
    "StepSignal",
    "bounded_unit_mean_weights",
    "broadcast_to_tokens",
    "clip_loss",
    "costs_from_estimates",
    "group_advantages",
    "is_informative",
    "overlong_penalty",
    "pad_rows",
    "prediction_advantages",
    "prediction_reward",
    "progress_deltas",
    "step_shares",
    "token_accuracy",
    "token_to_go",
]
