"""The paper's numbers that may stand beside ours: only those that the project's specification states.

Models, hardware and tasks are others than in any run here, so no number of these is a target to be met: they are shown
with ``--paper`` only, and always as the paper's. The paper's success rates stand in none of our sources, so there are
none here. Those of step quality are in :data:`agentgym_ttg.benchmarks.steps.quality.PAPER`.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["METER_OVERHEAD", "PAPER_VALUES", "PaperValue"]


@dataclass(frozen=True, slots=True)
class PaperValue:
    """A number of the paper.

    Attributes:
        name: What it measures.
        value: The number, as printed.
        setting: For what.
        source: Where we have it from.
    """

    name: str
    value: str
    setting: str
    source: str


METER_OVERHEAD = PaperValue(
    "time of the meter beside that of the rest of an update",
    "8.8 %",
    "generative meter Qwen3-4B-Instruct-2507, GPUs",
    "project specification, the comparison's compute account (it names no figure)",
)

PAPER_VALUES: tuple[PaperValue, ...] = (
    METER_OVERHEAD,
    PaperValue(
        "refinement of the ALFWorld meter by RL",
        "about 10.45 GPU hours",
        "generative meter Qwen3-4B-Instruct-2507, group 8",
        "project specification of DeltaTTG, known settings",
    ),
    PaperValue(
        "policy updates of a training run",
        "150",
        "Qwen3-4B and Llama-3.1-8B-Instruct; inferred from figures",
        "project specification of DeltaTTG, known settings",
    ),
    PaperValue("rho, cap M", "0.2, 5", "all environments", "project specification of DeltaTTG, notation"),
    PaperValue(
        "failure cost C", "25,600", "ALFWorld, guided acting; not told for others", "project specification of DeltaTTG"
    ),
)
