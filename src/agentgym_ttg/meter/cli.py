"""``python -m agentgym_ttg.meter``: train, evaluate, score."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
import yaml
from pydantic import ValidationError

from agentgym_ttg.core.errors import AgentGymError, ConfigError, DataError
from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.core.trajectory_files import load_trajectories
from agentgym_ttg.core.yaml_files import read_mapping

from .base import Estimate
from .config import MeterConfig
from .evaluation import MeterEvaluation, evaluate_meter
from .labels import Label, LengthNorm, label_trajectories, select_split, split_tasks
from .loading import load_meter
from .metrics import MeterMetrics
from .references import References
from .training import message_counter, train_meter

__all__ = ["main"]


@dataclass
class Train:
    """Train a meter from recorded trajectories and evaluate it on held-out tasks."""

    files: tyro.conf.Positional[tuple[Path, ...]]
    """Trajectory files (JSON lines), of any policies."""
    out: Path = Path("meter")
    """Folder of the meter; replaced if it is there."""
    kind: Literal["head", "generative"] = "head"
    """Two heads read in one pass, or a model that answers in text."""
    backbone: str | None = None
    """Model to start from: a folder, hub id, ``asset:`` or ``gguf:``; default the shipped tiny warm start."""
    config: Path | None = None
    """YAML file with any fields of MeterConfig; the flags here come on top."""
    seed: int | None = None
    """Seed of splits, order and sampling."""
    set: tuple[str, ...] = ()
    """Further fields of MeterConfig as ``field=value`` (value in YAML; ``sft.epochs=2`` reaches inside)."""
    json: bool = False
    """Print the report as JSON on standard output; progress goes to standard error."""


@dataclass
class Evaluate:
    """Evaluate a meter on recordings, beside two references."""

    files: tyro.conf.Positional[tuple[Path, ...]]
    """Trajectory files."""
    meter: str = "meter"
    """Folder or hub id of the meter."""
    split: Literal["test", "validation", "train", "all"] = "test"
    """Which tasks of the files: the split that training makes of them, or all, for files of tasks that the meter was
    not trained on."""
    out: Path | None = None
    """Folder for evaluation.json and the plots; default none."""
    untrained: bool = False
    """Take ``--meter`` as a model that was never trained as a meter, and ask it (generative)."""
    json: bool = False
    """Print JSON."""


@dataclass
class Score:
    """Score every decision of recorded trajectories; one JSON line a trajectory."""

    files: tyro.conf.Positional[tuple[Path, ...]]
    """Trajectory files."""
    meter: str = "meter"
    """Folder or hub id of the meter."""
    out: Path | None = None
    """File to write; default standard output."""
    untrained: bool = False
    """Take ``--meter`` as a model that was never trained as a meter, and ask it (generative)."""
    json: bool = False
    """JSON lines are what is written in any case; accepted for uniformity."""


Command = (
    Annotated[Train, tyro.conf.subcommand("train")]
    | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
    | Annotated[Score, tyro.conf.subcommand("score")]
)


def main(args: Sequence[str] | None = None, *, prog: str = "python -m agentgym_ttg.meter") -> int:
    """Run a command; return the exit status (2 for what the user can mend)."""
    command: Any = tyro.cli(
        Command,
        prog=prog,
        description="Progress meters.",
        args=list(args) if args is not None else None,
        config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.OmitArgPrefixes),
    )
    try:
        if isinstance(command, Train):
            _train(command)
        elif isinstance(command, Evaluate):
            _evaluate(command)
        else:
            _score(command)
    except AgentGymError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _train(command: Train) -> None:
    config = _meter_config(command)
    trajectories = _load(command.files)
    progress = _Progress()
    report = train_meter(trajectories, config, command.out, progress)
    progress.close()
    if command.json:
        print(report.model_dump_json())
        return
    print(
        f"{report.kind} meter from {report.trajectories['train']} trajectories "
        f"({report.histories['train']} histories) in {report.seconds:.0f} s -> {report.folder}"
    )
    _print_evaluation(report.test)


def _evaluate(command: Evaluate) -> None:
    meter = _load_meter(command)
    trajectories = [t for t in _load(command.files) if t.outcome != "error" and len(t)]
    config = _config_of(meter)
    counter = message_counter(config.count_with, meter.tokenizer)
    references = meter.settings.references
    places = (
        split_tasks((t.task_id for t in trajectories), seed=config.seed, validation=config.validation, test=config.test)
        if command.split != "all" or references is None
        else {}
    )
    norm = _norm_of(meter, trajectories)

    def labelled(part: Sequence[Trajectory]) -> list[Label]:
        return label_trajectories(part, target=meter.target, counter=counter, norm=norm)

    if references is None:
        references = References.fit(labelled(select_split(trajectories, places, "train")))
    chosen = trajectories if command.split == "all" else select_split(trajectories, places, command.split)
    labels = labelled(chosen)
    if not labels:
        raise DataError(f"the split {command.split!r} of these files holds no trajectory")
    estimates = meter.score(chosen)
    evaluation = evaluate_meter(meter, labels, references=references, estimates=estimates)
    if command.out is not None:
        _write_evaluation(command.out, evaluation, estimates, labels, "steps" if meter.target == "steps" else "tokens")
    if command.json:
        print(evaluation.model_dump_json())
    else:
        _print_evaluation(evaluation)


def _score(command: Score) -> None:
    meter = _load_meter(command)
    trajectories = _load(command.files)
    lines = [
        json.dumps(
            {
                "env_id": trajectory.env_id,
                "task_id": trajectory.task_id,
                "policy": trajectory.policy,
                "outcome": trajectory.outcome,
                "estimates": [_record(estimate) for estimate in row],
            }
        )
        for trajectory, row in zip(trajectories, meter.score(trajectories), strict=True)
    ]
    text = "".join(f"{line}\n" for line in lines)
    if command.out is None:
        sys.stdout.write(text)
        return
    try:
        command.out.parent.mkdir(parents=True, exist_ok=True)
        command.out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {command.out}: {error.strerror or error}") from error


def _record(estimate: Estimate) -> dict[str, Any]:
    return {
        "valid": estimate.valid,
        "can_complete": estimate.can_complete,
        "remaining_tokens": estimate.remaining_tokens,
        "completion_logit": estimate.completion_logit,
        "score": estimate.score,
    }


def _write_evaluation(
    out: Path,
    evaluation: MeterEvaluation,
    estimates: Sequence[Sequence[Estimate]],
    labels: Sequence[Label],
    unit: str,
) -> None:
    from .plots import calibration_plot, trace_data, trace_plot

    traces = trace_data(estimates, labels)
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "evaluation.json").write_text(evaluation.model_dump_json(indent=2) + "\n", encoding="utf-8")
        (out / "traces.json").write_text(json.dumps(traces, indent=1) + "\n", encoding="utf-8")
        calibration_plot(evaluation, out / "calibration.png", unit=unit)
        trace_plot(traces, out / "traces.png", unit=unit)
    except OSError as error:
        raise ConfigError(f"cannot write into {out}: {error.strerror or error}") from error


_ROWS = (
    ("completion_auroc", "completion AUROC", "{:.3f}"),
    ("completion_accuracy", "completion accuracy", "{:.3f}"),
    ("balanced_accuracy", "balanced accuracy", "{:.3f}"),
    ("token_accuracy", "token accuracy u", "{:.3f}"),
    ("mean_absolute_error", "mean absolute error", "{:.1f}"),
    ("rank_correlation", "rank correlation inside trajectories", "{:.3f}"),
    ("rank_correlation_across", "rank correlation at the same step", "{:.3f}"),
    ("flips", "changes of can_complete in a trajectory", "{:.2f}"),
    ("reward", "prediction reward (eq. 4)", "{:.3f}"),
    ("invalid", "share of invalid outputs", "{:.3f}"),
)


def _print_evaluation(evaluation: MeterEvaluation) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{evaluation.meter.trajectories} trajectories, {evaluation.meter.histories} histories")
    table.add_column("")
    for name in ("meter", "constant", "steps x mean tokens"):
        table.add_column(name, justify="right")

    def shown(metrics: MeterMetrics, name: str, form: str) -> str:
        value = getattr(metrics, name)
        return "-" if value is None else form.format(value)

    for name, title, form in _ROWS:
        table.add_row(title, *(shown(m, name, form) for m in (evaluation.meter, evaluation.constant, evaluation.steps)))
    console = Console()
    console.print(table)
    for name, pair in evaluation.paired.items():
        console.print(
            f"where both answer, against {name}: error {pair.error[0]:.1f} vs {pair.error[1]:.1f}, "
            f"token accuracy {pair.token_accuracy[0]:.3f} vs {pair.token_accuracy[1]:.3f}"
        )
    console.print("beats both references" if evaluation.beats_references else "does NOT beat both references")


@dataclass
class _Progress:
    """One line on standard error for each stage, redrawn on a terminal."""

    _last: str = field(default="", init=False)

    def __call__(self, stage: str, done: int, total: int, metrics: dict[str, float]) -> None:
        """Show how far it is."""
        line = f"{stage} {done}/{total}" + "".join(f"  {k} {v:.4g}" for k, v in metrics.items() if k != "epoch")
        if sys.stderr.isatty():
            print(f"\r\033[K{line[:160]}", end="", file=sys.stderr, flush=True)
        elif ("loss" in metrics and stage == "head") or done == total:
            print(line, file=sys.stderr)
        self._last = line

    def close(self) -> None:
        """End the line."""
        if self._last and sys.stderr.isatty():
            print(file=sys.stderr)


def _meter_config(command: Train) -> MeterConfig:
    fields: dict[str, Any] = {}
    if command.config is not None:
        fields.update(read_mapping(command.config, "the configuration"))
    fields["kind"] = command.kind
    for name in ("backbone", "seed"):
        if getattr(command, name) is not None:
            fields[name] = getattr(command, name)
    for item in command.set:
        path, equals, text = item.partition("=")
        if not equals:
            raise ConfigError(f"expected --set field=value, got {item!r}")
        at = fields
        *outer, last = path.split(".")
        for part in outer:
            at = at.setdefault(part, {})
            if not isinstance(at, dict):
                raise ConfigError(f"--set {item}: {part!r} is not a group of fields")
        at[last] = yaml.safe_load(text)
    try:
        return MeterConfig.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"meter setting {where or 'combination'}: {first['msg']}") from error


def _load(files: Sequence[Path]) -> list[Trajectory]:
    if not files:
        raise ConfigError("expected at least one trajectory file")
    trajectories = load_trajectories(files)
    if not trajectories:
        raise DataError(f"no trajectories in {', '.join(map(str, files))}")
    return trajectories


def _load_meter(command: Evaluate | Score) -> Any:
    if command.untrained:
        from .generative import GenerativeMeter

        return GenerativeMeter.untrained(command.meter)
    return load_meter(command.meter)


def _config_of(meter: Any) -> MeterConfig:
    """Return the settings that a meter was trained with; the defaults for one that was not."""
    return MeterConfig.model_validate(meter.settings.training.get("config", {}))


def _norm_of(meter: Any, trajectories: Sequence[Trajectory]) -> LengthNorm | None:
    if meter.target != "normalized":
        return None
    lengths = meter.settings.training.get("policy_lengths") or LengthNorm.fit(trajectories).lengths
    return LengthNorm(lengths, sum(lengths.values()) / max(1, len(lengths)))
