"""Policies, the rollout engine, agents, the trainer and the registry of methods."""
