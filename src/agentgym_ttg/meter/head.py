"""HeadMeter: a causal LM with a value head and a completion head, read at every decision in one forward pass."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.trajectory import Trajectory
from agentgym_ttg.models.loading import pick_device

from ._branches import can_pack, collate_packs, pack_windows
from ._torch import load_saved_backbone, load_saved_tokenizer, save_pretrained
from .base import Estimate
from .features import FeatureCache
from .files import open_meter, saved_meter
from .labels import Target
from .prompts import HistoryEncoder, Style, Window, make_encoder
from .references import References

__all__ = ["HeadMeter", "HeadNetwork", "HeadSettings", "Reading", "collate", "length_batches"]

_HEADS = "heads.safetensors"


class HeadSettings(BaseModel):
    """What a head meter needs to know of its training to be read."""

    model_config = ConfigDict(frozen=True)

    name: str = "head"
    """Name for results."""
    target: Target = "tokens"
    """What is regressed."""
    style: Style = "chat"
    """How histories are worded."""
    context_length: int = Field(default=1024, ge=32)
    """Most tokens in a pass."""
    threshold: float = Field(default=0.5, gt=0, lt=1)
    """Probability of completion from which ``can_complete`` is said."""
    value_mean: float = 0.0
    """Mean of the transformed target in training; the head predicts standard scores."""
    value_std: float = Field(default=1.0, gt=0)
    """Its standard deviation."""
    references: References | None = None
    """The references fitted on the meter's training split."""
    training: dict[str, Any] = {}
    """How the meter was made, for the record."""

    @property
    def transform(self) -> Literal["log1p", "identity"]:
        """How the target is transformed before it is standardised.

        Costs to go span orders of magnitude and what counts is the relative error (eq. 5), so the head predicts
        log1p. The loss is nearly absolute there, hence what is predicted is near the conditional median, which a
        monotone transform keeps: it is the median in tokens as well. A score has no such scale.
        """
        return "identity" if self.target == "outcome" else "log1p"

    def encode_values(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the standard scores of target values."""
        raw = np.log1p(values) if self.transform == "log1p" else values
        scores: NDArray[np.float64] = (raw - self.value_mean) / self.value_std
        return scores

    def decode_values(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return target values from standard scores; costs are never negative."""
        raw = scores * self.value_std + self.value_mean
        if self.transform == "identity":
            return raw
        values: NDArray[np.float64] = np.maximum(np.expm1(np.minimum(raw, 30.0)), 0.0)  # nan stays nan
        return values


class HeadNetwork(nn.Module):
    """Backbone and two linear heads.

    Args:
        backbone: A causal transformers model without its LM head.
        hidden_size: Width of its last hidden state.
    """

    def __init__(self, backbone: Any, hidden_size: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.value_head = nn.Linear(hidden_size, 1)
        self.completion_head = nn.Linear(hidden_size, 1)
        for head in (self.value_head, self.completion_head):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    def forward(self, ids: Tensor, rows: Tensor, positions: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
        """Read decisions.

        Sequences are padded on the right and the model is causal, so no padding is ever before what is read, and no
        attention mask is needed.

        Args:
            ids: Token ids, ``(B, L)``.
            rows: Sequence of each decision, ``(N,)``.
            positions: Length of its history in that sequence, ``(N,)``.
            **options: Further arguments of the backbone (``attention_mask``, ``position_ids``).

        Returns:
            Standard scores of the value and log-odds of completion, each ``(N,)``, float32.
        """
        return self.heads(self.states(ids, rows, positions, **options))

    def states(self, ids: Tensor, rows: Tensor, positions: Tensor, **options: Any) -> Tensor:
        """Return the backbone's last hidden states at the decisions, ``(N, H)``, float32; see :meth:`forward`."""
        hidden = self.backbone(input_ids=ids, use_cache=False, **options).last_hidden_state
        return hidden[rows, positions - 1].float()  # type: ignore[no-any-return]

    def heads(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the heads say of hidden states ``(N, H)``."""
        return self.value_head(states).squeeze(-1), self.completion_head(states).squeeze(-1)


@dataclass(frozen=True, slots=True)
class Reading:
    """One window of one trajectory (by its index), as a row of a batch."""

    trajectory: int
    window: Window


class HeadMeter:
    """Scores every decision of a trajectory in one forward pass.

    Args:
        network: Backbone and heads.
        tokenizer: The backbone's tokenizer.
        settings: What ``meter.json`` holds.
        batch_tokens: Padded tokens in one forward pass.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``.
    """

    def __init__(
        self,
        network: HeadNetwork,
        tokenizer: Any,
        settings: HeadSettings,
        *,
        batch_tokens: int = 8192,
        device: str = "auto",
    ) -> None:
        self.device = pick_device(device)
        self.network = network.to(self.device).eval()
        self.tokenizer = tokenizer
        self.settings = settings
        self.batch_tokens = batch_tokens
        self.name = settings.name
        self.tokens_scored = 0
        self.encoder: HistoryEncoder = make_encoder(tokenizer, settings.style, settings.context_length)

    @property
    def target(self) -> Target:
        """What the meter predicts."""
        return self.settings.target

    def score(self, trajectories: Sequence[Trajectory]) -> list[list[Estimate]]:
        """Return one estimate for each decision history of each trajectory; see :class:`ProgressMeter`."""
        return self.estimates(*self.read(trajectories))

    def read(
        self, trajectories: Sequence[Trajectory], features: FeatureCache | None = None
    ) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
        """Return values in target units and log-odds of completion, each one array ``(T_i,)`` a trajectory.

        Args:
            trajectories: What to read.
            features: Where the backbone's hidden states are kept; None reads with the backbone.
        """
        readings = self.readings(trajectories)
        values = [np.full(len(trajectory), np.nan) for trajectory in trajectories]
        logits = [np.full(len(trajectory), np.nan) for trajectory in trajectories]
        if features is not None:
            windows = [reading.window for reading in readings]
            states = features.read(self.network, windows, device=self.device, batch_tokens=self.batch_tokens)
            with torch.inference_mode():
                for reading, state in zip(readings, states, strict=True):
                    z, logit = (out.cpu().double().numpy() for out in self.network.heads(self._tensor(state)))
                    values[reading.trajectory][reading.window.steps] = self.settings.decode_values(z)
                    logits[reading.trajectory][reading.window.steps] = logit
            return values, logits
        with torch.inference_mode():
            for batch in length_batches([len(r.window.ids) for r in readings], self.batch_tokens):
                chosen = [readings[i] for i in batch]
                ids, rows, positions = collate([r.window for r in chosen], self.device)
                z, logit = (out.cpu().double().numpy() for out in self.network(ids, rows, positions))
                self.tokens_scored += sum(len(r.window.ids) for r in chosen)
                offset = 0
                for reading in chosen:
                    steps = reading.window.steps
                    part = slice(offset, offset + len(steps))
                    values[reading.trajectory][steps] = self.settings.decode_values(z[part])
                    logits[reading.trajectory][steps] = logit[part]
                    offset += len(steps)
        return values, logits

    def _tensor(self, array: NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def score_branches(self, trajectories: Sequence[Trajectory]) -> list[list[Estimate]]:
        """Return what :meth:`score` does; what neighbouring trajectories have in common is read once.

        For the branches of an episode, which differ in the last step only. Models whose attention takes no mask
        (sliding windows, recurrent states) read each branch whole.
        """
        if not can_pack(self.network.backbone):
            return self.score(trajectories)
        readings = self.readings(trajectories)
        packs = pack_windows([reading.window for reading in readings], self.batch_tokens)
        values = [np.full(len(trajectory), np.nan) for trajectory in trajectories]
        logits = [np.full(len(trajectory), np.nan) for trajectory in trajectories]
        with torch.inference_mode():
            for batch in length_batches([pack.length for pack in packs], self.batch_tokens):
                chosen = [packs[i] for i in batch]
                ids, places, sees, rows, ends = collate_packs(chosen, self.device)
                z, logit = (
                    out.cpu().double().numpy()
                    for out in self.network(ids, rows, ends, attention_mask=sees, position_ids=places)
                )
                self.tokens_scored += sum(pack.length for pack in chosen)
                offset = 0
                for reading in (readings[member] for pack in chosen for member in pack.members):
                    steps = reading.window.steps
                    part = slice(offset, offset + len(steps))
                    values[reading.trajectory][steps] = self.settings.decode_values(z[part])
                    logits[reading.trajectory][steps] = logit[part]
                    offset += len(steps)
        return self.estimates(values, logits)

    def readings(self, trajectories: Sequence[Trajectory]) -> list[Reading]:
        """Return the windows of the trajectories."""
        return [
            Reading(trajectory=index, window=window)
            for index, trajectory in enumerate(trajectories)
            if len(trajectory)
            for window in self.encoder.windows(self.encoder.encode(trajectory))
        ]

    def estimates(
        self, values: Sequence[NDArray[np.float64]], logits: Sequence[NDArray[np.float64]]
    ) -> list[list[Estimate]]:
        """Turn what was read into estimates; numbers that are not finite are invalid outputs."""
        bound = math.log(self.settings.threshold / (1 - self.settings.threshold))
        outcome = self.target == "outcome"

        def estimate(value: float, logit: float) -> Estimate:
            if not (math.isfinite(value) and math.isfinite(logit)):
                return Estimate.invalid()
            can = logit >= bound
            cost = value if can and not outcome else None
            return Estimate(can, cost, completion_logit=logit, score=value if outcome else None)

        return [
            [estimate(float(v), float(b)) for v, b in zip(row, row_logits, strict=True)]
            for row, row_logits in zip(values, logits, strict=True)
        ]

    def with_threshold(self, threshold: float) -> HeadMeter:
        """Return this meter with another threshold of completion; the network is shared."""
        settings = HeadSettings.model_validate({**self.settings.model_dump(), "threshold": threshold})
        return HeadMeter(
            self.network, self.tokenizer, settings, batch_tokens=self.batch_tokens, device=str(self.device)
        )

    def save(self, folder: str | os.PathLike[str], extra: Mapping[str, str] | None = None) -> None:
        """Save in Hugging Face form, whole or not at all: backbone, tokenizer, heads, ``meter.json``.

        Args:
            folder: Where to; a meter that is there is replaced.
            extra: Text files to put beside it, by name.
        """
        with saved_meter(folder, "head", self.settings, extra) as fresh:
            save_pretrained(fresh, self.network.backbone, self.tokenizer)
            heads = {
                f"{name}.{part}": tensor.detach().float().cpu().contiguous()
                for name in ("value_head", "completion_head")
                for part, tensor in getattr(self.network, name).state_dict().items()
            }
            save_file(heads, str(fresh / _HEADS))

    @classmethod
    def load(
        cls,
        path_or_id: str | os.PathLike[str],
        *,
        device: str = "auto",
        dtype: str = "float32",
        batch_tokens: int = 8192,
        threshold: float | None = None,
    ) -> HeadMeter:
        """Load a saved meter from a folder or the hub.

        Raises:
            ConfigError: If there is no head meter.
        """
        folder, settings = open_meter(path_or_id, "head", HeadSettings)
        if threshold is not None:
            settings = HeadSettings.model_validate({**settings.model_dump(), "threshold": threshold})
        backbone, tokenizer = load_saved_backbone(folder, dtype), load_saved_tokenizer(folder)
        network = HeadNetwork(backbone, int(backbone.config.get_text_config().hidden_size))
        try:
            heads = load_file(str(folder / _HEADS))
            for name in ("value_head", "completion_head"):
                part = {key.removeprefix(f"{name}."): t for key, t in heads.items() if key.startswith(f"{name}.")}
                getattr(network, name).load_state_dict(part)
        except (OSError, RuntimeError, ValueError) as error:
            raise ConfigError(f"the heads of the meter in {folder} cannot be read: {error}") from error
        return cls(network, tokenizer, settings, batch_tokens=batch_tokens, device=device)


def length_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Return batches of indices of similar length; a batch's padded size stays within ``batch_tokens``.

    >>> length_batches([5, 50, 6, 48], 100)
    [[0, 2], [3, 1]]
    """
    out: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if out and lengths[index] * (len(out[-1]) + 1) <= batch_tokens and lengths[index] <= 2 * lengths[out[-1][0]]:
            out[-1].append(index)
        else:
            out.append([index])
    return out


def collate(windows: Sequence[Window], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return padded ids ``(B, L)``, and the row and position of each decision, ``(N,)``, in order."""
    ids = np.zeros((len(windows), max(len(window.ids) for window in windows)), dtype=np.int64)
    for row, window in enumerate(windows):
        ids[row, : len(window.ids)] = window.ids
    rows = np.repeat(np.arange(len(windows)), [len(window.steps) for window in windows])
    positions = np.concatenate([window.positions for window in windows])
    a, b, c = (torch.from_numpy(array).to(device) for array in (ids, rows, positions))
    return a, b, c
