"""Policies: scripted, Hugging Face models, OpenAI-compatible servers."""

from .base import GenerationRequest, Policy, SamplingParams

__all__ = ["GenerationRequest", "Policy", "SamplingParams"]
