"""A progress meter that learned nothing: what the ablation ``deltattg-untrained`` asks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from ._torch import keep_layers, load_base
from .config import MeterConfig
from .head import HeadMeter, HeadNetwork, HeadSettings

if TYPE_CHECKING:
    from .generative import GenerativeMeter

__all__ = ["untrained_meter"]


def untrained_meter(config: MeterConfig, *, failure_cost: float) -> HeadMeter | GenerativeMeter:
    """Return a meter of the configured kind as it is before any training.

    A generative one is its backbone, told by the instruction what to answer. A head meter has random heads (seeded),
    so its estimates depend on the history and mean nothing; heads of 0 would say the same of every history. It has
    seen no recordings that tell how long the rest can be: its estimates scatter about half the failure cost.

    Args:
        config: Settings; ``backbone`` must be given.
        failure_cost: C, in the unit of the target.

    Raises:
        ConfigError: If the backbone cannot be loaded.
        ValueError: If there is no backbone.
    """
    if config.backbone is None:
        raise ValueError("an untrained meter needs a backbone")
    base = load_base(config.backbone, dtype=config.dtype, device=config.device)
    text = base.model.config.get_text_config()
    config = config.filled(sum(p.numel() for p in base.model.parameters()), int(text.num_hidden_layers))
    assert config.context_length is not None
    note = {"backbone": config.backbone, "config": config.model_dump(mode="json"), "trained": False}
    if config.kind == "generative":
        from .generative import GenerativeMeter, GenerativeSettings

        settings = GenerativeSettings(
            name=config.name or "untrained",
            target=config.target,
            context_length=config.context_length,
            instruction=config.instruction,
            training=note,
        )
        return GenerativeMeter(base, settings)
    model = base.model.base_model
    keep_layers(model, config.layers)
    network = HeadNetwork(model, int(text.hidden_size))
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        network.value_head.reset_parameters()
        network.completion_head.reset_parameters()
    head = HeadSettings(
        name=config.name or "untrained",
        target=config.target,
        style=config.effective_style,
        context_length=config.context_length,
        threshold=config.threshold,
        value_mean=0.0 if config.target == "outcome" else math.log1p(failure_cost / 2),
        training=note,
    )
    return HeadMeter(network, base.tokenizer, head, batch_tokens=config.batch_tokens, device=config.device)
