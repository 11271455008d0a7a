"""The environments, one package each, and what they share."""

from .base import INFO_TYPES, MultiTurnEnv, Snapshot, StepResult
from .registration import ENVIRONMENTS, EnvInfo, register_environments, resolve_env_id
from .tasks import NumberedIds, Task, TaskSet

__all__ = [
    "ENVIRONMENTS",
    "INFO_TYPES",
    "EnvInfo",
    "MultiTurnEnv",
    "NumberedIds",
    "Snapshot",
    "StepResult",
    "Task",
    "TaskSet",
    "register_environments",
    "resolve_env_id",
]
