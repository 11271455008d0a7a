import os

import pytest

pytest.importorskip("fastapi", reason="the extra awm is not installed")
pytest.importorskip("sqlalchemy", reason="the extra awm is not installed")

from hostile_world import CODE

from agentgym_ttg.core.errors import EngineError
from agentgym_ttg.envs.agentworldmodel.sandbox.client import launcher
from agentgym_ttg.envs.agentworldmodel.sandbox.guard import Limits


@pytest.fixture
def episode(tmp_path):
    database = tmp_path / "initial.db"
    database.touch()
    server = launcher().world("hostile", CODE, database, Limits(memory_mb=256), 120)
    episodes = [server.episode(database, 60), server.episode(database, 60)]
    yield episodes[0]
    assert episodes[1].call("good", {"number": 2}) == (200, "xx")  # the neighbour did not notice
    for one in episodes:
        one.close()


def test_calls_and_their_errors(episode):
    assert episode.call("good", {"number": 3, "word": "ab"}) == (200, "ababab")
    assert episode.call("good", {"number": "many"})[0] == 422
    for arguments in ({}, {"number": 1, "colour": "red"}):
        assert episode.call("good", arguments)[0] == 400
    assert "no tool" in episode.call("nothing", {})[1]["detail"]
    assert "ValueError: bad" in episode.call("fails", {})[1]["detail"]


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ("exits", "process ended"),
        ("quits", "SystemExit"),
        ("eats", "memory"),
        ("connects", "socket|network"),
        ("spawns", "left its process"),
    ],
)
def test_what_breaks_a_limit_ends_the_episode_with_the_reason(episode, tool, reason):
    with pytest.raises(EngineError, match=reason):
        episode.call(tool, {})


def test_a_hanging_call_is_killed(episode):
    episode.timeout = 0.5
    with pytest.raises(EngineError, match="no answer within"):
        episode.call("hangs", {})


def test_writing_outside_the_folder(episode, tmp_path):
    target = tmp_path / "out.txt"
    assert episode.call("writes", {"path": "inside.txt"})[0] == 200
    with pytest.raises(EngineError, match="wrote outside its folder"):
        episode.call("writes", {"path": str(target)})
    assert not target.exists()


def test_attaching_another_database_is_refused(episode, tmp_path):
    target = tmp_path / "other.db"
    assert episode.call("attaches", {"path": str(target)})[0] == 500
    assert not os.path.exists(target)
