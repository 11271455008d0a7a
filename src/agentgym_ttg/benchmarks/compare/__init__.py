"""Comparing methods on environments over seeds."""
