"""Causal language models: loading, the built-in tiny one, ids that only append, sampling with a kept cache.

Nothing here is imported before it is asked for, because it needs torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .chat import ChatBridge
    from .decoder import CachedDecoder, Decoded, Decoder, DecodeRequest, ReencodingDecoder, make_decoder
    from .loading import LoadedModel, load_causal_lm
    from .tiny import TinyConfig, build_tokenizer, make_tiny_model

__all__ = [
    "CachedDecoder",
    "ChatBridge",
    "DecodeRequest",
    "Decoded",
    "Decoder",
    "LoadedModel",
    "ReencodingDecoder",
    "TinyConfig",
    "build_tokenizer",
    "load_causal_lm",
    "make_decoder",
    "make_tiny_model",
]

_HOME = {
    **dict.fromkeys(["CachedDecoder", "Decoded", "DecodeRequest", "Decoder"], "decoder"),
    **dict.fromkeys(["ReencodingDecoder", "make_decoder"], "decoder"),
    **dict.fromkeys(["LoadedModel", "load_causal_lm"], "loading"),
    **dict.fromkeys(["TinyConfig", "build_tokenizer", "make_tiny_model"], "tiny"),
    "ChatBridge": "chat",
}


def __getattr__(name: str) -> Any:
    """Import on first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
