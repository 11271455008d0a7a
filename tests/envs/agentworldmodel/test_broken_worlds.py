"""A world that breaks a limit ends its own episode as an error with the reason; the others of the run go on."""

import json

import pytest

pytest.importorskip("fastapi", reason="the extra awm is not installed")
pytest.importorskip("sqlalchemy", reason="the extra awm is not installed")

from hostile_world import CODE

from agentgym_ttg.agents.policies import ExpertPolicy
from agentgym_ttg.agents.rollout import RolloutEngine, group_specs
from agentgym_ttg.envs.agentworldmodel.env import AgentWorldModelEnv
from agentgym_ttg.envs.agentworldmodel.records import write_records
from agentgym_ttg.envs.vector import make_vector_env
from agentgym_ttg.wrappers.chat import PromptBuilder

ID = "agentgym_ttg/AgentWorldModel-v0"
VERIFIER = (
    "def verify_task_completion(initial_db_path, final_db_path, final_answer=None):\n    return {'result': 'complete'}"
)
#: Tool -> what the episode's error says.
BREAKS = {
    "exits": "process ended",
    "quits": "SystemExit",
    "eats": "memory",
    "connects": "socket",
    "spawns": "left its process",
    "hangs": "no answer within",
    "writes": "wrote outside its folder",
}


def world(name, code, tools, path):
    """The records of a world whose n-th task is solved by calling the n-th tool; ``good`` is one more."""
    arguments = {"writes": {"path": str(path)}, "good": {"number": 2}}
    known = {"scenario": name}
    return {
        "gen_scenario": [{"name": name, "description": name}],
        "gen_tasks": [{**known, "tasks": [f"Do {tool}." for tool in tools]}],
        "gen_db": [{**known, "db_schema": {"tables": [{"ddl": "CREATE TABLE t (x TEXT)", "indexes": []}]}}],
        "gen_sample": [{**known, "sample_data": {"tables": []}}],
        "gen_envs": [{**known, "full_code": code}],
        "gen_verifier.pure_code": [
            {**known, "task_idx": index, "verification": {"code": VERIFIER}} for index in range(len(tools))
        ],
        "gen_solutions": [
            {**known, "task_idx": index, "calls": [{"name": tool, "arguments": arguments.get(tool, {})}]}
            for index, tool in enumerate(tools)
        ],
    }


def merged(*records):
    return {name: [line for one in records for line in one[name]] for name in records[0]}


@pytest.fixture
def folder(tmp_path):
    tools = [*BREAKS, "good", "fails"]
    records = merged(
        world("hostile", CODE, tools, tmp_path / "outside.txt"),
        world("silent", "import time\ntime.sleep(600)", ["good"], tmp_path),
        world("unborn", "raise SystemExit(3)", ["good"], tmp_path),
        world("wrong", "app = None", ["good"], tmp_path),
    )
    write_records(records, tmp_path / "data")
    return tmp_path / "data", tools


def test_each_break_ends_its_episode_as_an_error_and_nothing_else(folder, monkeypatch, tmp_path):
    monkeypatch.setattr("agentgym_ttg.envs.agentworldmodel.env._START_TIMEOUT", 10.0)
    data, tools = folder
    outcomes = {}
    for split in ("train", "test"):
        # All at once, in one process: a break must not reach the neighbours.
        envs = make_vector_env(ID, 4, data_dir=str(data), split=split, expert=True, call_timeout=4.0)
        try:
            engine = RolloutEngine(envs, ExpertPolicy(), env_id=ID, prompt=PromptBuilder())
            for done in engine.run(group_specs(list(envs.tasks), size=1, seed=0, name=split)):
                trajectory = done.trajectory
                outcomes.setdefault(trajectory.task_id, set()).add(
                    (trajectory.outcome, str(trajectory.metadata.get("error", "")))
                )
        finally:
            envs.close()
    names = {f"hostile/{index:04d}": tool for index, tool in enumerate(tools)}
    assert set(outcomes) == {*names, "silent/0000", "unborn/0000", "wrong/0000"}
    for task_id, tool in names.items():
        ((outcome, error),) = outcomes[task_id]
        # A tool that raises is an observation; this expert repeats itself to the limit of steps.
        ends = "error" if tool in BREAKS else "truncated" if tool == "fails" else "success"
        assert outcome == ends, (tool, error)
        assert BREAKS.get(tool, "") in error
    for name, reason in (("silent", "no answer within"), ("unborn", "SystemExit"), ("wrong", "no FastAPI application")):
        ((outcome, error),) = outcomes[f"{name}/0000"]
        assert outcome == "error"
        assert reason in error
    assert not (tmp_path / "outside.txt").exists()


def test_published_worlds_come_from_a_hub_by_their_id(folder, monkeypatch):
    hub = pytest.importorskip("huggingface_hub", reason="the extra train is not installed")
    asked = []

    def snapshot_download(name, **settings):
        asked.append((name, settings["repo_type"]))
        return str(folder[0])

    monkeypatch.setattr(hub, "snapshot_download", snapshot_download)
    env = AgentWorldModelEnv(data_dir="someone/of-the-hub", split="train")
    assert asked == [("someone/of-the-hub", "dataset")]
    assert env.max_steps == 30
    assert {task.partition("/")[0] for task in env.tasks} <= {"hostile", "silent", "unborn", "wrong"}
    env.close()


def test_the_screen_leaves_broken_worlds_out(folder):
    from agentgym_ttg.envs.agentworldmodel.screen import main

    data, tools = folder
    assert main([str(data), "--timeout", "10"]) == 0
    marked = json.loads((data / "screen.json").read_text())["marked"]
    assert len(marked) == len(tools) + 3
    assert "does not start" in marked["unborn/0000"]
    assert "untouched" in marked["hostile/0000"]
