import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from agentgym_ttg.core.errors import DataError
from agentgym_ttg.data import DATA_SOURCES, bfcl_install, check, status
from agentgym_ttg.data.__main__ import main
from agentgym_ttg.envs.alfworld.builtin import BuiltinGames
from agentgym_ttg.envs.alfworld.data import OfficialData


@pytest.fixture
def official(tmp_path):
    """A folder in the official layout, with built-in games in it."""
    for split, count in (("train", 3), ("valid_seen", 2)):
        for number in range(count):
            game = BuiltinGames("easy").load(f"builtin/easy/{split}/{number:06d}")
            folder = tmp_path / "json_2.1.1" / split / f"{game.task_type}-X-None-Y-{number}" / "trial_1"
            folder.mkdir(parents=True)
            content = {"pddl_problem": game.problem_text, "pddl_domain": "", "grammar": "", "solvable": True}
            (folder / "game.tw-pddl").write_text(json.dumps(content))
    return tmp_path


def test_built_in_data_are_always_there(monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    found = {one.name: one for one in status()}
    assert set(found) == set(DATA_SOURCES)
    assert found["alfworld-easy"].state == "built-in"
    assert found["alfworld-easy"].splits["valid_seen"].tasks == 140
    assert found["alfworld"].state == "missing"
    assert "ALFWORLD_DATA" in found["alfworld"].problem
    assert found["alfworld"].bring


def test_built_in_worlds_are_listed_as_the_environment_plays_them():
    pytest.importorskip("fastapi", reason="the extra awm is not installed")
    pytest.importorskip("sqlalchemy", reason="the extra awm is not installed")
    from agentgym_ttg.envs.agentworldmodel.env import AgentWorldModelEnv

    found = check(DATA_SOURCES["worlds"], hashes=True)
    assert found.state == "built-in"
    for split in ("train", "test"):
        tasks = AgentWorldModelEnv(split=split).tasks
        assert (found.splits[split].tasks, found.splits[split].content_hash) == (len(tasks), tasks.content_hash)


def test_published_worlds_are_found_by_their_variable(tmp_path, monkeypatch):
    from agentgym_ttg.envs.agentworldmodel.authoring import WORLDS, author_records
    from agentgym_ttg.envs.agentworldmodel.records import write_records

    write_records(author_records(WORLDS / "library"), tmp_path)
    monkeypatch.setenv("AGENTWORLDMODEL_DATA", str(tmp_path))
    found = check(DATA_SOURCES["agentworldmodel"])
    assert found.state == "present"
    assert sum(split.tasks for split in found.splits.values()) == 287
    records = author_records(WORLDS / "library")
    del records["gen_db"]
    write_records(records, tmp_path / "less")
    found = check(DATA_SOURCES["agentworldmodel"], tmp_path / "less")
    assert found.state == "broken"
    assert "expected gen_db.jsonl" in found.problem


def test_bfcl_is_installed_or_told_how(tmp_path, monkeypatch):
    if (bfcl_install.bfcl_folder() / "bfcl_eval").is_dir():
        pytest.importorskip("mpmath", reason="the extra bfcl is not installed")
        from agentgym_ttg.envs.bfcl.env import BFCLEnv

        found, tasks = check(DATA_SOURCES["bfcl"], hashes=True), BFCLEnv().tasks
        assert found.state == "present"
        assert (found.splits["test"].tasks, found.splits["test"].content_hash) == (len(tasks), tasks.content_hash)
    monkeypatch.setenv("AGENTGYM_TTG_CACHE", str(tmp_path))
    for name in ("bfcl", "bfcl-v4"):
        found = check(DATA_SOURCES[name])
        assert found.state == "missing"
        assert found.bring.startswith("agentgym-ttg data install bfcl")
    (bfcl_install.bfcl_folder() / "bfcl_eval").mkdir(parents=True)
    assert check(DATA_SOURCES["bfcl"]).state == "broken"


def test_official_data_are_counted_and_hashed_as_runs_hash_them(official, monkeypatch):
    found = check(DATA_SOURCES["alfworld"], official, hashes=True)
    assert found.state == "present"
    assert {name: split.tasks for name, split in found.splits.items()} == {"train": 3, "valid_seen": 2}
    assert found.splits["train"].content_hash == OfficialData(official).content_hash("train")
    monkeypatch.setenv("ALFWORLD_DATA", str(official))
    assert check(DATA_SOURCES["alfworld"]).folder == str(official)


def test_broken_and_missing_folders_are_told(official, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert check(DATA_SOURCES["alfworld"], tmp_path / "empty").state == "broken"
    assert check(DATA_SOURCES["alfworld"], tmp_path / "nowhere").state == "missing"
    assert main(["alfworld", "--data-dir", str(tmp_path / "empty")]) == 1
    assert "alfworld-download" in capsys.readouterr().out
    assert main(["alfworld", "--data-dir", str(official)]) == 0


def test_the_command_lists_and_prints_json(capsys, monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert "built-in" in shown
    assert "missing" in shown
    assert main(["--json", "--check", "alfworld-easy"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 1
    assert all(split["content_hash"] for split in found[0]["splits"].values())
    assert main(["alfwrld"]) == 2
    assert "'alfworld'" in capsys.readouterr().err


def test_bfcl_is_fetched_from_the_index_where_there_is_no_pip(tmp_path, monkeypatch):
    pages = {"/simple/": b'<a href="../files/bfcl_eval-2025.8.6.2-py3-none-any.whl#sha256=0">it</a>'}
    pages["/files/bfcl_eval-2025.8.6.2-py3-none-any.whl"] = b"another wheel"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = pages.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("AGENTGYM_TTG_CACHE", str(tmp_path))
    monkeypatch.setattr(bfcl_install, "_INDEX", f"http://127.0.0.1:{server.server_address[1]}/simple/")
    monkeypatch.setattr(bfcl_install.importlib.util, "find_spec", lambda name: None)
    try:
        with pytest.raises(DataError, match="not the pinned wheel"):
            bfcl_install.install_bfcl()
        with pytest.raises(DataError, match=r"does not list bfcl_eval-2026\.3\.23"):
            bfcl_install.install_bfcl("v4")
        pages.clear()
        with pytest.raises(DataError, match="404"):
            bfcl_install.install_bfcl()
    finally:
        server.shutdown()
        server.server_close()
    assert not list(tmp_path.rglob("*.whl"))


def test_without_a_network_it_is_said_how_to_bring_bfcl(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pip", reason="there is no pip here")
    monkeypatch.setenv("AGENTGYM_TTG_CACHE", str(tmp_path))
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_CONFIG_FILE", "/dev/null"), ("PIP_FIND_LINKS", str(tmp_path))):
        monkeypatch.setenv(name, value)
    assert main(["install", "bfcl"]) == 2
    told = capsys.readouterr().err
    assert "cannot fetch bfcl-eval" in told
    assert "--wheel FILE" in told
    assert not bfcl_install.bfcl_folder().exists()
