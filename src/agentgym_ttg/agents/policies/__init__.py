"""Policies: scripted, Hugging Face models, OpenAI-compatible servers."""

from .base import GenerationRequest, Policy, SamplingParams
from .hf import HFPolicy
from .openai_compatible import OpenAIPolicy
from .scripted import ExpertPolicy, NoisyExpertPolicy, RandomPolicy

__all__ = [
    "ExpertPolicy",
    "GenerationRequest",
    "HFPolicy",
    "NoisyExpertPolicy",
    "OpenAIPolicy",
    "Policy",
    "RandomPolicy",
    "SamplingParams",
]
