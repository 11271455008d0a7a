import copy
import pickle

import pytest

from agentgym_ttg.core import ConfigError, DataError, UnknownTaskError
from agentgym_ttg.envs import ENVIRONMENTS, NumberedIds, TaskSet, resolve_env_id


def test_numbered_ids_are_a_sequence_without_a_list():
    ids = NumberedIds("toy/", 10**6)
    assert len(ids) == 10**6
    assert ids[0] == "toy/000000"
    assert ids[-1] == "toy/999999"
    assert ids[3:5] == ["toy/000003", "toy/000004"]
    assert ids.number(ids[1234]) == 1234
    assert list(NumberedIds("a", 3, width=1)) == ["a0", "a1", "a2"]
    for index in (10**6, -(10**6) - 1):
        with pytest.raises(IndexError):
            ids[index]


@pytest.mark.parametrize(
    "foreign", ["toy/00001", "toy/0000001", "toy/00000١", "other/000001", "toy/000001\n", "", 3, None]
)
def test_foreign_ids_are_not_members(foreign):
    ids = NumberedIds("toy/", 1000)
    assert foreign not in ids
    assert "toy/001000" not in ids
    if isinstance(foreign, str):
        with pytest.raises(KeyError):
            ids.number(foreign)


@pytest.mark.parametrize("ids", [NumberedIds("toy/", 5), ["a", "b", "c"], ("a",)])
def test_task_sets(ids):
    tasks = TaskSet("train", ids, source="made up", content_hash="h")
    assert list(tasks) == list(ids)
    assert len(tasks) == len(ids)
    assert tasks[0] in tasks
    assert "nope" not in tasks
    assert tasks.get(tasks[0]).split == "train"
    with pytest.raises(UnknownTaskError, match="unknown task id 'nope' in split 'train'"):
        tasks.get("nope")
    for clone in (copy.deepcopy(tasks), pickle.loads(pickle.dumps(tasks))):
        assert list(clone) == list(tasks)
        assert clone[0] in clone


def test_an_empty_set_and_a_task_named_twice_are_refused():
    with pytest.raises(DataError, match="holds no task"):
        TaskSet("train", [])
    with pytest.raises(DataError, match="twice"):
        TaskSet("train", ["a", "b", "a"])


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_names_of_environments(env_id):
    short = env_id.split("/")[1]
    bare = short.rsplit("-v", 1)[0]
    for name in (env_id, short, bare, bare.lower(), short.lower(), env_id.upper(), f"agentgym_ttg:{bare}"):
        assert resolve_env_id(name) == env_id


@pytest.mark.parametrize("name", ["agentgym_ttg/ALFWorld-v9", "alfwrld", "", "other/ALFWorld"])
def test_an_unknown_environment_is_refused_and_the_nearest_named(name):
    with pytest.raises(ConfigError, match="unknown environment") as caught:
        resolve_env_id(name)
    assert "agentgym_ttg/ALFWorld-v0" in str(caught.value)


def test_other_registered_environments_are_taken_as_they_are():
    assert resolve_env_id("CartPole-v1") == "CartPole-v1"
    assert resolve_env_id("toy_envs:toys/Counting-v0") == "toys/Counting-v0"
    with pytest.raises(ConfigError, match="cannot import 'no_such_module'"):
        resolve_env_id("no_such_module:toys/Counting-v0")
