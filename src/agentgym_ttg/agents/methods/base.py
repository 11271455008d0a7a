"""What a method is: how it acts, or how it turns outcomes into credit, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from agentgym_ttg.core.actions import ActionFormat, PlainFormat
from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.trajectory import TrajectoryGroup
from agentgym_ttg.credit import AdvantageEstimator
from agentgym_ttg.meter.base import ProgressMeter
from agentgym_ttg.scorers import scorer_kind

from ..config import TrainConfig
from ..policies.base import Policy

__all__ = ["MeterTarget", "Method", "PolicySettings"]

MeterTarget = Literal["tokens", "normalized", "steps", "outcome"]


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """What a method may want to know to build its policy.

    Attributes:
        format: The environment's action format; a scripted policy writes its commands in it.
        model: A local folder, a hub id, or the name of a model at a server.
        base_url: Address of an OpenAI-compatible server.
        api_key_env: Environment variable that holds the server's key.
        noise: Probability of a random step (``noisy-expert``).
        dtype: Parameter type of a local model.
        device: Where a local model runs.
        concurrency: Requests to a server at once.
    """

    format: ActionFormat = field(default_factory=PlainFormat)
    model: str | None = None
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    noise: float = 0.3
    dtype: str = "auto"
    device: str = "auto"
    concurrency: int = 16


@dataclass(frozen=True, slots=True)
class Method:
    """A method that ``--method`` can name.

    Attributes:
        name: As it is written on the command line.
        summary: One line for lists.
        source: Where it is described.
        kind: ``evaluate`` plays a policy; ``train`` improves a model.
        policy: Builds the policy of an ``evaluate`` method.
        estimator: Builds the advantage estimator of a ``train`` method from the settings, the progress meter (None
            unless ``needs_meter``) and the failure cost C in the meter's unit (tokens or steps).
        needs_meter: Whether the estimator asks a progress meter; a run trains one where none is given.
        meter_target: What that meter predicts.
        meter_trained: Whether that meter is trained; False asks an untrained one, whatever meter is given.
        takes_signal: Whether ``signal`` of the settings can take the place of the meter's tokens to go.
        choice: How one of several candidates is picked at each step; None plays what the policy says.
        keep: Which groups of an update are trained on (dynamic sampling replaces the others); None keeps all.
        env_kwargs: Arguments that the environment must be made with.
        action_formats: Preferred action formats; the first that the environment takes. Empty: the environment's own.
        prompted: Whether the model is prompted by the environment's shipped template unless another is given.

    Raises:
        ConfigError: If a method has not what its kind needs.
    """

    name: str
    summary: str
    source: str
    kind: Literal["evaluate", "train"]
    policy: Callable[[PolicySettings], Policy] | None = None
    estimator: Callable[[TrainConfig, ProgressMeter | None, float], AdvantageEstimator] | None = None
    needs_meter: bool = False
    meter_target: MeterTarget = "tokens"
    meter_trained: bool = True
    takes_signal: bool = False
    choice: Literal["scorer", "random", "first"] | None = None
    keep: Callable[[TrajectoryGroup], bool] | None = None
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    action_formats: tuple[str, ...] = ()
    prompted: bool = False

    def __post_init__(self) -> None:
        """Check that the method can do what its kind promises."""
        if self.kind not in ("evaluate", "train"):
            raise ConfigError(f"method {self.name!r}: expected kind 'evaluate' or 'train', got {self.kind!r}")
        if (self.policy if self.kind == "evaluate" else self.estimator) is None:
            missing = "policy" if self.kind == "evaluate" else "estimator"
            raise ConfigError(f"method {self.name!r} is of kind {self.kind!r} and needs a {missing}")

    def with_signal(self, config: TrainConfig) -> Method:
        """Return the method as it is with ``signal`` of the settings: another meter, or none at all.

        Raises:
            ConfigError: If there is no such step scorer, or the method has a signal of its own.
        """
        if config.signal is None or not self.needs_meter:
            return self
        if not self.takes_signal:
            raise ConfigError(
                f"method {self.name!r} has a signal of its own; --signal {config.signal} goes with deltattg"
            )
        kind = scorer_kind(config.signal)
        target = cast(MeterTarget, kind.meter_target or self.meter_target)
        return replace(self, needs_meter=kind.asks_meter, meter_target=target)

    def make_policy(self, settings: PolicySettings) -> Policy:
        """Build the policy.

        Raises:
            ConfigError: If this method trains instead, or a setting that it needs is missing.
        """
        if self.policy is None:
            raise ConfigError(f"method {self.name!r} trains a model; it has no policy of its own")
        return self.policy(settings)

    def make_estimator(
        self, config: TrainConfig, meter: ProgressMeter | None, failure_cost: float
    ) -> AdvantageEstimator:
        """Build the advantage estimator.

        Args:
            config: Training settings.
            meter: A progress meter; needed where ``needs_meter``.
            failure_cost: C, the cost of a state that cannot be completed, in the meter's unit (tokens or steps).

        Raises:
            ConfigError: If this method does not train, or needs a meter that was not given.
        """
        if self.estimator is None:
            raise ConfigError(f"method {self.name!r} does not train")
        if self.needs_meter and meter is None:
            raise ConfigError(f"method {self.name!r} needs a progress meter, got none")
        return self.estimator(config, meter, failure_cost)
