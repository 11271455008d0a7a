"""``--signal`` and ``--signal-options``: which step scorer a method asks, and what that is built from."""

from __future__ import annotations

from typing import Any

import yaml
from pydantic import ValidationError

from agentgym_ttg.core.errors import ConfigError, nearest
from agentgym_ttg.meter.signals import SignalKind
from agentgym_ttg.scorers.base import ScorerSettings

from .config import TrainConfig

__all__ = ["METER_SIGNALS", "scorer_settings"]

#: The scorers that are a reading of a progress meter.
METER_SIGNALS: dict[str, SignalKind] = {"ttg": "ttg", "steps-to-go": "steps", "future-score": "outcome"}


def scorer_settings(config: TrainConfig, **defaults: Any) -> ScorerSettings:
    """Return what a scorer is built from: ``signal_options`` above the run's own settings.

    The value ``warm-start`` stands for the model that training starts from.

    Args:
        config: Training settings.
        **defaults: Values of fields that ``signal_options`` does not name; None leaves the field alone.

    Raises:
        ConfigError: If an option is none of :class:`ScorerSettings`, or its value cannot be.

    >>> scorer_settings(TrainConfig(signal_options=("beta=2", "token_aggregation=min")), device="cpu").beta
    2.0
    """
    given = {name: value for name, value in defaults.items() if value is not None}
    values: dict[str, Any] = {"device": config.device, "dtype": config.dtype, **given}
    for word in config.signal_options:
        name, equals, value = word.partition("=")
        if not equals or name not in ScorerSettings.model_fields:
            hint = nearest(name, ScorerSettings.model_fields)
            raise ConfigError(
                f"signal_options: expected KEY=VALUE with a setting of step scorers, got {word!r}"
                + (f"; did you mean {hint[0]!r}?" if hint else f"; there are {', '.join(ScorerSettings.model_fields)}")
            )
        values[name] = _value(value, config)
    try:
        return ScorerSettings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(
            f"signal_options: {'.'.join(map(str, first['loc']))}: {first['msg']}, got {first.get('input')!r}"
        ) from error


def _value(text: str, config: TrainConfig) -> Any:
    if text == "warm-start":
        if config.warm_start_from is None:
            raise ConfigError("signal_options: 'warm-start' stands for the model that training starts from; name one")
        return config.warm_start_from
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
