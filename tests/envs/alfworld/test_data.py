"""Reading folders of official games; the games in them are built-in ones, so that this runs everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentgym_ttg.core.errors import DataError, UnknownTaskError
from agentgym_ttg.envs.alfworld.builtin import BuiltinGames
from agentgym_ttg.envs.alfworld.data import OfficialData, task_type_of
from agentgym_ttg.envs.alfworld.engine import goal_sentences
from agentgym_ttg.envs.alfworld.engine.domain import action_fingerprints, goal_sentence_of, recognise
from agentgym_ttg.envs.alfworld.experts import PlanningExpert

from .conftest import write_game

TASK = '"task": [ { "rhs": "Your task is to: UNKNOWN GOAL." } ]'
MOVE = TASK + ' action PutObject { template :: "move {o} to {r}"; } action help { template :: "help"; }'
PUT = TASK + ' action PutObject { template :: "put {o} in/on {r}"; }'


def row(index: int) -> dict[str, Any]:
    game = BuiltinGames("easy").load(f"builtin/easy/train/{index:06d}")
    return {"p": game.problem_text, "g": game.goal_text, "w": PlanningExpert(game.start()).plan()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "json_2.1.1"
    for index in range(6):
        write_game(root, f"valid_seen/pick_and_place_simple-Mug-None-Desk-{index}/trial_{9 - index}", row(index), MOVE)
    write_game(root, "train/pick_heat_then_place_in_recep-Mug-None-Desk-3/trial_1", row(7), MOVE)
    return tmp_path


def test_sorted_ids_and_games(folder: Path) -> None:
    data = OfficialData(folder)
    assert data.splits == ("train", "valid_seen")
    ids = data.ids("valid_seen")
    assert list(ids) == sorted(ids)
    assert len(ids) == 6
    assert ids[0] == "valid_seen/pick_and_place_simple-Mug-None-Desk-0/trial_9"
    assert task_type_of(ids[0]) == "pick_and_place_simple"
    game = data.load(ids[2])
    assert game is data.load(ids[2])
    assert game.id == ids[2]
    assert game.goal_text == row(2)["g"]
    episode = game.start()
    assert [episode.step(command) for command in game.walkthrough][-1].won
    assert OfficialData(folder / "json_2.1.1").ids("valid_seen") == ids


def test_environment_variable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(folder))
    assert OfficialData().ids("train")
    monkeypatch.delenv("ALFWORLD_DATA")
    with pytest.raises(DataError, match="alfworld-download"):
        OfficialData()


def test_cache_is_bounded(folder: Path) -> None:
    data = OfficialData(folder, cache_size=2)
    games = [data.load(task_id) for task_id in data.ids("valid_seen")]
    assert data.load(games[-1].id) is games[-1]
    assert data.load(games[0].id) is not games[0]


def test_content_hash_sees_every_byte(folder: Path) -> None:
    before = OfficialData(folder).content_hash("valid_seen")
    assert OfficialData(folder).content_hash("valid_seen") == before
    path = OfficialData(folder).path(OfficialData(folder).ids("valid_seen")[3])
    path.write_text(path.read_text().replace("take", "tale", 1))  # the same size
    assert OfficialData(folder).content_hash("valid_seen") != before


def test_games_left_out_as_in_the_official_loader(folder: Path) -> None:
    root = folder / "json_2.1.1"
    write_game(root, "valid_seen/pick_and_place_with_movable_recep-Mug-Bowl-Desk-3/trial_1", row(8), MOVE)
    write_game(root, "valid_seen/pick_and_place_simple-AppleSliced-None-Desk-3/trial_1", row(8), MOVE)
    write_game(root, "valid_seen/pick_and_place_simple-Mug-None-Desk-9/trial_1", row(8), MOVE, solvable=False)
    (root / "valid_seen" / "pick_and_place_simple-Mug-None-Desk-99" / "trial_1").mkdir(parents=True)
    assert len(OfficialData(folder).ids("valid_seen")) == 6


def test_bad_folders_and_names(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        OfficialData(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="an empty folder"):
        OfficialData(tmp_path / "empty")
    data = OfficialData(folder)
    with pytest.raises(DataError, match="did you mean 'valid_seen'"):
        data.ids("valid_sen")
    with pytest.raises(DataError, match="no folder for the split"):
        data.ids("valid_unseen")
    close = "valid_seen/pick_and_place_simple-Mug-None-Desk-0/trial_8"
    with pytest.raises(UnknownTaskError, match="trial_9"):
        data.load(close)
    for task_id in ("", "../../etc/passwd", "valid_seen/../train/x", "/etc"):
        with pytest.raises(UnknownTaskError):
            data.load(task_id)
    (folder / "json_2.1.2" / "train").mkdir(parents=True)
    with pytest.raises(DataError, match="more than one release"):
        OfficialData(folder)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"{", "damaged"),
        (b"\xff\xfe\x00", "damaged"),
        (b"[]", "JSON object"),
        (b"{}", "pddl_problem"),
        (b'{"pddl_problem": 3, "pddl_domain": "", "grammar": ""}', "pddl_problem"),
        (b'{"pddl_problem": "(define", "pddl_domain": "", "grammar": ""}', "not closed"),
        (b'{"pddl_problem": "", "pddl_domain": "(define (domain x) (:action fly))", "grammar": ""}', "lacks"),
        (b'{"pddl_problem": "", "pddl_domain": "", "grammar": "drop {o}"}', "neither"),
        (b"[" * 100_000, "damaged"),
    ],
)
def test_damaged_files_are_named(folder: Path, content: bytes, what: str) -> None:
    data = OfficialData(folder)
    task_id = data.ids("valid_seen")[1]
    data.path(task_id).write_bytes(content)
    with pytest.raises(DataError, match=what) as caught:
        data.load(task_id)
    assert task_id in str(caught.value)


def test_a_mixture_of_releases_is_refused(folder: Path) -> None:
    root = folder / "json_2.1.1"
    write_game(root, "valid_seen/pick_and_place_simple-Mug-None-Desk-3/trial_4", row(8), PUT)
    data = OfficialData(folder)
    assert data.ids("valid_seen")
    with pytest.raises(DataError, match="mixes two releases"):
        data.load("valid_seen/pick_and_place_simple-Mug-None-Desk-3/trial_4")
    with pytest.raises(DataError, match="mixes two releases"):
        OfficialData(folder).content_hash("valid_seen")
    write_game(root, "valid_seen/pick_and_place_simple-Mug-None-Desk-99/trial_4", row(8), PUT)
    with pytest.raises(DataError, match="mixes two releases"):
        OfficialData(folder).ids("valid_seen")


def test_a_folder_of_the_old_release_plays(tmp_path: Path) -> None:
    write_game(tmp_path, "train/pick_and_place_simple-Mug-None-Desk-3/trial_1", row(0), PUT)
    game = OfficialData(tmp_path).load("train/pick_and_place_simple-Mug-None-Desk-3/trial_1")
    assert game.variant.syntax == "put"
    assert not game.variant.has_help


def test_the_sentence_of_a_game_without_grammar(tmp_path: Path) -> None:
    path = write_game(tmp_path, "train/pick_and_place_simple-Mug-None-Desk-3/trial_1", row(0), "")
    data = OfficialData(tmp_path)
    game = data.load(data.ids("train")[0])
    assert game.goal_text == goal_sentences(game.goal)[0]
    beside = '{"rebuilt_from_pack": true, "turk_annotations": {"anns": [{"task_desc": "do it so."}]}}'
    (path.parent / "traj_data.json").write_text(beside)
    assert OfficialData(tmp_path).load(data.ids("train")[0]).goal_text == "do it so."


def test_domains_are_compared_action_by_action() -> None:
    assert recognise("", "").syntax == "move"
    with pytest.raises(DataError, match="lacks the ALFWorld actions"):
        recognise("(define (domain alfred))", "")
    assert action_fingerprints("(define (domain d) (:action a :effect (b)))") != action_fingerprints(
        "(define (domain d) (:action a :effect (c)))"
    )


def test_goal_sentences_with_escapes() -> None:
    assert goal_sentence_of('{"rhs": "Your task is to: put \\"it\\" there."}') == 'put "it" there.'
    assert goal_sentence_of("nothing") is None
