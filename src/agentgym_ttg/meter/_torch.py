"""Loading what meters are made of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.models import LoadedModel, load_causal_lm

__all__ = [
    "keep_layers",
    "load_base",
    "load_saved_backbone",
    "load_saved_tokenizer",
    "quiet",
    "save_pretrained",
]


def load_base(spec: str, *, dtype: str, device: str) -> LoadedModel:
    """Load the model that a meter is trained from."""
    return load_causal_lm(spec, dtype=dtype, device=device)


def keep_layers(backbone: Any, count: int | None) -> None:
    """Drop all but the first ``count`` layers of a backbone, in place; None, or as many as there are, keeps all.

    Raises:
        ConfigError: If it has fewer, or keeps its layers where they are not found.
    """
    config = backbone.config.get_text_config()
    if count is None or count == config.num_hidden_layers:
        return
    for name in ("layers", "h", "blocks"):
        layers = getattr(backbone, name, None)
        if isinstance(layers, torch.nn.ModuleList):
            break
    else:
        raise ConfigError(f"cannot shorten a {type(backbone).__name__}: its layers are not where they usually are")
    if count > len(layers):
        raise ConfigError(f"expected at most {len(layers)} layers of this backbone, got {count}")
    setattr(backbone, name, layers[:count])
    config.num_hidden_layers = count
    if getattr(config, "layer_types", None):
        config.layer_types = list(config.layer_types)[:count]


def load_saved_backbone(folder: Path, dtype: str) -> Any:
    """Load the backbone of a saved head meter, which has no LM head.

    Raises:
        ConfigError: If the files do not load.
    """
    from transformers import AutoModel

    kind = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}.get(dtype)
    if kind is None:
        raise ConfigError(f"unknown dtype {dtype!r}; expected float32, bfloat16 or float16")
    return _load(AutoModel, folder, dtype=kind)


def load_saved_tokenizer(folder: Path) -> Any:
    """Load the tokenizer of a saved meter.

    Raises:
        ConfigError: If the files do not load.
    """
    from transformers import AutoTokenizer

    return _load(AutoTokenizer, folder)


def _load(factory: Any, folder: Path, **options: Any) -> Any:
    try:
        with quiet():
            return factory.from_pretrained(str(folder), **options)
    except Exception as error:  # files of any kind of brokenness
        raise ConfigError(
            f"the meter in {folder} does not load ({factory.__name__}): {type(error).__name__}: {error}"
        ) from error


def save_pretrained(folder: Path, *parts: Any) -> None:
    """Save models and tokenizers into a folder, without progress bars."""
    with quiet():
        for part in parts:
            part.save_pretrained(folder)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the progress bars of the libraries out of our own progress."""
    import datasets
    from transformers.utils import logging as library

    bars, data_bars = library.is_progress_bar_enabled(), datasets.are_progress_bars_disabled()
    library.disable_progress_bar()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if bars:
            library.enable_progress_bar()
        if not data_bars:
            datasets.enable_progress_bars()
