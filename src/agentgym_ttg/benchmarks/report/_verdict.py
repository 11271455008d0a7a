"""What a comparison says in plain sentences: which method is best, by how much, how sure, at what cost.

Everything is computed from the numbers. Two methods count as told apart only if the paired t test over seeds stays
below 0.05 after Holm's correction for all the comparisons with the best; without that the sentence says that the seeds
do not separate them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..compare.statistics import Interval, PairedDifference, Reach, holm
from ._paper import METER_OVERHEAD
from ._plots import SETTINGS, shown_value
from ._study import Column, EnvStudy

__all__ = ["Sentence", "Separation", "separations", "verdict"]

#: Largest p value that tells two methods apart.
ALPHA = 0.05
#: With fewer pairs nothing is said about which is better.
FEWEST_SEEDS = 3


@dataclass(frozen=True, slots=True)
class Sentence:
    """A part of the verdict.

    Attributes:
        question: What it answers.
        text: The answer.
    """

    question: str
    text: str


@dataclass(frozen=True, slots=True)
class Separation:
    """Whether the best method is told apart from another one.

    Attributes:
        column: The other one.
        difference: Of the best from it, paired by seed.
        p: Of the paired t test, adjusted for the number of others; NaN with fewer than two pairs.
        state: ``apart``; ``leaning``, if only without the correction; ``together``; ``few`` with too few pairs.
    """

    column: Column
    difference: PairedDifference
    p: float
    state: Literal["apart", "leaning", "together", "few"]


def best_of(columns: Sequence[Column]) -> Column | None:
    """Return the column with the highest mean success at the end."""
    there = [column for column in columns if math.isfinite(column.summary.final.mean)]
    return max(there, key=lambda column: column.summary.final.mean, default=None)


def separations(study: EnvStudy, best: Column) -> list[Separation]:
    """Return whether the best is told apart from each other contender, nearest first."""
    others = [column for column in study.contenders if column is not best]
    found = {column.label: study.difference(best, column) for column in others}
    adjusted = holm({label: one.student_p for label, one in found.items() if one.n >= FEWEST_SEEDS})
    out = []
    for column in others:
        one = found[column.label]
        p = adjusted.get(column.label, math.nan)
        state: Literal["apart", "leaning", "together", "few"] = "together"
        if one.n < FEWEST_SEEDS:
            state = "few"
        elif one.mean > 0 and p < ALPHA:
            state = "apart"
        elif one.mean > 0 and one.student_p < ALPHA:
            state = "leaning"
        out.append(Separation(column, one, p, state))
    return sorted(out, key=lambda one: one.difference.mean)


def verdict(study: EnvStudy, *, paper: bool = False) -> list[Sentence]:
    """Return the sentences for one environment.

    Args:
        study: The environment.
        paper: Whether to name the paper's numbers beside ours.
    """
    best = best_of(study.contenders)
    if best is None:
        return [Sentence("Which method is best?", "No complete run has a success rate yet.")]
    apart = separations(study, best)
    out = [
        Sentence("Which method is best?", _which(best, apart)),
        Sentence("By how much?", _how_much(study, best)),
        Sentence("How sure is that?", _how_sure(study, best, apart)),
        Sentence("How fast did they learn?", _how_fast(study, best)),
        Sentence("At what cost?", _cost(study, best, paper)),
        Sentence("Which settings matter?", _settings(study)),
        Sentence("What does it not say?", _limits(study, best)),
    ]
    return [sentence for sentence in out if sentence.text]


# The answers ------------------------------------------------------------------------------------------------------


def _which(best: Column, apart: Sequence[Separation]) -> str:
    final = best.summary.final
    text = f"{best.label} ends highest: {_rate(final)}, mean over {_seeds(final.n)}."
    tied = [one.column.label for one in apart if one.state in ("together", "leaning", "few")]
    if not apart:
        return f"{text} It is the only one here."
    if not tied:
        return f"{text} It is better than every other method here."
    if len(tied) == len(apart):
        return f"The seeds do not tell: {text} But it is not separated from any other method here."
    return f"{text} It is not separated from {_list(tied)}: one of these may be as good or better."


def _how_much(study: EnvStudy, best: Column) -> str:
    parts = []
    reference = study.reference
    if reference is not None and reference is not best and best.summary.difference is not None:
        found = best.summary.difference
        parts.append(f"{_points(found)} over {reference.label} with the same seeds")
    second = best_of([column for column in study.contenders if column is not best])
    if second is not None and second is not reference:
        parts.append(f"{_points(study.difference(best, second))} over the second, {second.label}")
    text = f"{best.label} is {' and '.join(parts)}." if parts else ""
    gain = best.summary.gain
    if math.isfinite(gain.mean):
        sure = "" if math.isnan(gain.low) or gain.low > 0 or gain.high < 0 else ", which may as well be nothing"
        size = _span(gain.mean, gain.low, gain.high, signed=True)
        text += f" Training changed it by {size} points from where it started{sure}."
    scripted = [c for c in study.of("scripted") if c not in study.contenders]
    if scripted:
        told = (f"{column.label} {_percent(column.summary.final.mean)}" for column in scripted)
        text += f" For scale, without training: {_list(list(told))}."
    return text.strip()


def _how_sure(study: EnvStudy, best: Column, apart: Sequence[Separation]) -> str:
    parts = []
    for state, told in (
        ("apart", "better than {} (paired over seeds, p < 0.05 after correction for {} comparisons)"),
        ("leaning", "better than {} only if no other comparison had been made (p < 0.05, not after correction for {})"),
        ("together", "not separated from {}, where p >= 0.05"),
        ("few", "not to be told from {}: fewer than three seeds in common"),
    ):
        named = [one for one in apart if one.state == state]
        if named:
            names = [_against(one, nearest=index == 0 or state != "apart") for index, one in enumerate(named)]
            parts.append(told.format(_list(names), len(apart)))
    text = f"{best.label} is {'; '.join(parts)}." if parts else ""
    wavering = [column for column in dict.fromkeys((study.reference, best)) if column is not None]
    spread = [
        f"{100 * column.summary.final.std:.1f} points for {column.label}"
        for column in wavering
        if math.isfinite(column.summary.final.std)
    ]
    if spread:
        text += f" Between seeds of one method, success varies by {_list(spread)} (standard deviation)."
    return text.strip()


def _against(one: Separation, *, nearest: bool) -> str:
    student = one.difference.student
    if not nearest or not math.isfinite(student.low):
        return one.column.label
    return f"{one.column.label} (by {_span(student.mean, student.low, student.high, signed=True)})"


def _settings(study: EnvStudy) -> str:
    """Tell of each swept setting how far success goes apart, and whether any value is separated from the default."""
    parts = []
    for name, lines in study.sweeps().items():
        for method, points in lines.items():
            there = [point for point in points if math.isfinite(point.final.mean)]
            base = next((point for point in there if point.default), None)
            if len(there) < 2:
                continue
            worst, top = (choose(there, key=lambda point: point.final.mean) for choose in (min, max))
            text = f"{SETTINGS.get(name, name)} of {method}: "
            if worst.final.mean == top.final.mean:
                text += f"{_percent(top.final.mean)} at each of {_list([shown_value(p.value) for p in there])}"
            else:
                text += f"from {_percent(worst.final.mean)} at {shown_value(worst.value)} to "
                text += f"{_percent(top.final.mean)} at {shown_value(top.value)}"
            if base is not None:
                others = {
                    shown_value(p.value): study.difference(p.column, base.column, seeds=p.seeds)
                    for p in there
                    if p is not base
                }
                adjusted = holm({value: one.student_p for value, one in others.items() if one.n >= FEWEST_SEEDS})
                apart = [value for value, p in adjusted.items() if p < ALPHA]
                differ = f"{_list(apart)} differ{'s' if len(apart) == 1 else ''}" if apart else "no value differs"
                text += f"; {differ} surely from {shown_value(base.value)}, the default"
            parts.append(text)
    return f"{'. '.join(part[0].upper() + part[1:] for part in parts)}." if parts else ""


def _how_fast(study: EnvStudy, best: Column) -> str:
    reference = study.reference
    if reference is None or not reference.summary.reference_share:
        return ""
    level = reference.summary.reference_level["updates"].level
    start = reference.summary.before.mean
    own = reference.summary.reference_share["updates"]
    if level <= start + 1e-9:
        return (
            f"{reference.label} ends at {_percent(level)}, not above where training starts ({_percent(start)}), so "
            "what it takes to reach its level says nothing here."
        )
    quickest = min(
        (c for c in study.contenders if c is not reference and c.summary.reference_share),
        key=lambda c: (c.summary.reference_share["updates"].at_least.mean, c.label),
        default=None,
    )
    named = list(dict.fromkeys(c.label for c in (best, quickest) if c is not None and c is not reference))
    if study.get("deltattg") is not None and "deltattg" not in named and reference.label != "deltattg":
        named.append("deltattg")
    parts = []
    for label in named:
        column = study.get(label)
        assert column is not None
        if share := column.summary.reference_share:
            parts.append(f"{label} takes {_share(share['updates'])} of its updates and {_share(share['generated'])} "
                         "of its actor tokens")  # fmt: skip
    text = f"{reference.label} ends at {_percent(level)}. To reach that, {'; '.join(parts)}. " if parts else ""
    return (
        f"{text}{reference.label} itself first touches it after {_share(own)} of its updates (its curve goes up and "
        "down), which is the fair number to compare with."
    )


def _cost(study: EnvStudy, best: Column, paper: bool) -> str:
    reference, cost = study.reference, best.summary.cost
    parts = []
    if reference is not None and math.isfinite(cost.relative.mean) and reference is not best:
        parts.append(f"an actor token of {best.label} costs {_times(cost.relative)} what one of {reference.label} does")
    if cost.meter_tokens.mean > 0:
        beside = f" ({METER_OVERHEAD.value} in the paper)" if paper else ""
        parts.append(f"asking the meter adds {_percent(cost.meter_overhead.mean)} to its updates{beside}")
    if cost.preparation.mean > 0:
        parts.append(f"making the meter took {_seconds(cost.preparation.mean)} once")
    if math.isfinite(cost.update_seconds.mean) and cost.update_seconds.mean > 0:
        parts.append(f"all its updates took {_seconds(cost.update_seconds.mean)} a run")
    if cost.peak_memory_mb:
        gpu = f" and {cost.peak_gpu_mb:,.0f} MiB of GPU memory" if cost.peak_gpu_mb else ""
        parts.append(f"at most {cost.peak_memory_mb:,.0f} MiB of memory{gpu}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _limits(study: EnvStudy, best: Column) -> str:
    parts = []
    fewest = min(column.summary.final.n for column in study.contenders)
    if fewest < 5:
        parts.append(f"{_seeds(fewest)} {'says' if fewest == 1 else 'say'} little about luck")
    split = best.runs[0].splits.get(best.runs[0].eval_split)
    if split is not None:
        parts.append(
            f"success is measured on {split.episodes} tasks of {split.split}, the same for every run, so the intervals "
            "are about training luck, not about other tasks"
        )
    if len(study.contenders) > 2:
        parts.append(f"the highest of {len(study.contenders)} means is a little too high by selection")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else ""


# Words ------------------------------------------------------------------------------------------------------------


def _percent(value: float) -> str:
    return "unknown" if math.isnan(value) else f"{value:.1%}"


def _rate(found: Interval) -> str:
    if math.isnan(found.low):
        return f"{_percent(found.mean)} (one seed, so no interval)"
    return f"{_percent(found.mean)} (95 % interval {max(found.low, 0):.1%} to {min(found.high, 1):.1%})"


def _span(mean: float, low: float, high: float, *, signed: bool = False) -> str:
    form = "{:+.1f}" if signed else "{:.1f}"
    text = form.format(100 * mean)
    return text if math.isnan(low) else f"{text} [{form.format(100 * low)}, {form.format(100 * high)}]"


def _points(found: PairedDifference) -> str:
    if not found.n:
        return "(no seed in common) unknown points"
    return f"{_span(found.mean, found.student.low, found.student.high, signed=True)} points"


def _share(found: Reach) -> str:
    if found.reached < found.n:
        part = f"only {found.reached} of {_seeds(found.n)}" if found.reached else f"none of {_seeds(found.n)}"
        return f"at least {found.at_least.mean:.0%} ({part} reached it)"
    low, high = found.mean.low, found.mean.high
    sure = "" if math.isnan(low) else f" [{max(low, 0):.0%}, {high:.0%}]"
    return f"{found.mean.mean:.0%}{sure}"


def _times(found: Interval) -> str:
    sure = "" if math.isnan(found.low) else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"{found.mean:.2f}{sure} times"


def _seconds(value: float) -> str:
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def _seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds"


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
