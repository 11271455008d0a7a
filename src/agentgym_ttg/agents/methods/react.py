"""ReAct: a language model that reasons, then acts, prompted by the environment's template."""

from __future__ import annotations

from agentgym_ttg.core.errors import ConfigError, MissingDependencyError

from ..policies.base import Policy
from .base import Method, PolicySettings

__all__ = ["REACT", "model_policy"]


def model_policy(settings: PolicySettings) -> Policy:
    """Build the policy of a local model, or of a model at a server.

    Raises:
        ConfigError: If no model is named.
        MissingDependencyError: If what runs it is not installed.
        PolicyError: If a local model cannot be loaded.
    """
    if settings.base_url is not None:
        from ..policies.openai_compatible import OpenAIPolicy

        return OpenAIPolicy(
            settings.base_url,
            settings.model,
            api_key_env=settings.api_key_env,
            concurrency=settings.concurrency,
        )
    if settings.model is None:
        raise ConfigError(
            "this method needs a model: --model FOLDER-OR-HUB-ID for a local one, or --base-url URL (and --model NAME "
            "where it serves several) for an OpenAI-compatible server"
        )
    try:
        import torch  # noqa: F401 - so that what is missing is told with the extra that brings it
        import transformers  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingDependencyError(error.name or "torch", "train", "running a local model") from error
    from ..policies.hf import HFPolicy

    return HFPolicy(settings.model, dtype=settings.dtype, device=settings.device)


REACT = Method(
    "react",
    "a language model that reasons and acts (--model, or --base-url)",
    "Yao et al., ReAct, ICLR 2023, arXiv:2210.03629",
    "evaluate",
    policy=model_policy,
    action_formats=("tags", "tools"),
    prompted=True,
)
