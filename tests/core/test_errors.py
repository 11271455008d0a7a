import pickle

import pytest

from agentgym_ttg.core import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.UnknownTaskError("room-1", "train", ["room-2", "cellar"]),
        errors.MissingDependencyError("torch", "train", "training"),
        errors.ConfigError("expected this, got that"),
        errors.EngineError("broke"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_come_back_from_worker_processes(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name.endswith("Error")])
def test_one_except_catches_them_all(name):
    assert issubclass(getattr(errors, name), errors.AgentGymError)


def test_builtin_meanings_are_kept():
    assert issubclass(errors.ConfigError, ValueError)
    assert issubclass(errors.MissingDependencyError, ImportError)
    assert issubclass(errors.EpisodeError, RuntimeError)


def test_an_unknown_task_names_the_nearest():
    error = errors.UnknownTaskError("kitchen-11", "train", ["kitchen-1", "kitchen-12", "bath-3"])
    assert "kitchen-1'" in str(error)
    assert "bath" not in str(error)


def test_a_huge_name_in_an_endless_list_stays_cheap():
    def endless():
        number = 0
        while True:
            yield f"task-{number}"
            number += 1

    assert errors.nearest("x" * 1_000_000, endless()) == []
