import dataclasses
import json

import pytest

pytest.importorskip("fastapi", reason="the extra awm is not installed")
pytest.importorskip("sqlalchemy", reason="the extra awm is not installed")

from agentgym_ttg.envs.agentworldmodel.authoring import WORLDS, author_records
from agentgym_ttg.envs.agentworldmodel.env import AgentWorldModelEnv
from agentgym_ttg.envs.agentworldmodel.loading import load_worlds
from agentgym_ttg.envs.agentworldmodel.records import write_records
from agentgym_ttg.envs.agentworldmodel.screen import main, screen_world

PASSES = (
    "def verify_task_completion(initial_db_path, final_db_path, final_answer=None):\n    return {'result': 'complete'}"
)


def test_each_fault_is_marked_with_its_reason():
    world = load_worlds()["library"]
    world = dataclasses.replace(world, tasks=world.tasks[:3])
    assert screen_world(world) == {}
    broken = dataclasses.replace(world, name="a", statements=("CREATE TABLE;",))
    assert set(screen_world(broken)) == {f"a/{i:04d}" for i in range(3)}
    assert "does not build" in screen_world(broken)["a/0000"]
    broken = dataclasses.replace(world, name="b", code="import nothing_of_this_name")
    assert "does not start" in screen_world(broken)["b/0001"]
    tasks = [
        dataclasses.replace(task, verifier=code) for task, code in zip(world.tasks, (PASSES, "", "1/0"), strict=True)
    ]
    reasons = screen_world(dataclasses.replace(world, name="c", tasks=tuple(tasks)))
    assert "untouched" in reasons["c/0000"]
    assert "no verifier" in reasons["c/0001"]
    assert "ZeroDivisionError" in reasons["c/0002"]


def test_what_is_marked_is_left_out_and_said(tmp_path):
    records = author_records(WORLDS / "library")
    for name in ("gen_tasks", "gen_solutions", "gen_verifier.pure_code"):
        if name == "gen_tasks":
            records[name][0]["tasks"] = records[name][0]["tasks"][:12]
        else:
            records[name] = records[name][:12]
    records["gen_verifier.pure_code"][0]["verification"]["code"] = PASSES
    write_records(records, tmp_path)
    assert main([str(tmp_path)]) == 0
    assert list(json.loads((tmp_path / "screen.json").read_text())["marked"]) == ["library/0000"]
    with pytest.warns(RuntimeWarning, match="1 tasks that"):
        env = AgentWorldModelEnv(data_dir=tmp_path)
    other = AgentWorldModelEnv(data_dir=tmp_path, split="test", screened=False)
    everything = AgentWorldModelEnv(data_dir=tmp_path, screened=False)
    assert "library/0000" not in env.tasks
    assert "library/0000" in everything.tasks or "library/0000" in other.tasks
