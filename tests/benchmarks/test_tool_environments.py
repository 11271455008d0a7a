"""The commands on the environments with tools and on those with scores of their own."""

import json

import pytest
from fake_openai import HERMES, LLAMA, NATIVE, SolutionServer

from agentgym_ttg.benchmarks.collect import main as collect
from agentgym_ttg.benchmarks.run import main as run
from agentgym_ttg.core import load_trajectories
from agentgym_ttg.core.messages import ToolCall
from agentgym_ttg.core.tool_calls import parse_tool_calls
from agentgym_ttg.data.bfcl_install import bfcl_folder

TINY = ("--model", "asset:alfworld_easy", "--max-response-tokens", "8", "--threads", "1")
LIBRARY = ("--env", "AgentWorldModel", "--env-kwargs", 'worlds=["library"]')
SIMPLE = ("--env", "BFCL", "--env-kwargs", 'categories=["simple","parallel"]')


@pytest.fixture
def awm():
    pytest.importorskip("fastapi", reason="the extra awm is not installed")
    pytest.importorskip("sqlalchemy", reason="the extra awm is not installed")


@pytest.fixture
def bfcl():
    pytest.importorskip("mpmath", reason="the extra bfcl is not installed")
    if not (bfcl_folder() / "bfcl_eval").is_dir():
        pytest.skip("BFCL is not installed (agentgym-ttg data install bfcl)")


def results(folder):
    return json.loads((folder / "results.json").read_text())


def calls_of(message):
    return [(call.name, call.arguments) for call in parse_tool_calls(message)[2] if isinstance(call, ToolCall)]


def solutions(env, tasks, sign):
    """Text that tells a task -> what its expert says; calls as (name, arguments)."""
    out = {}
    for task_id in tasks:
        observation, info = env.reset(options={"task_id": task_id})
        said, over = [], False
        while not over:
            said.append(calls_of(info["expert_action"]) or info["expert_action"])
            _, _, over, _, info = env.step(info["expert_action"])
        out[sign(observation)] = said
    env.close()
    return out


@pytest.fixture
def serve():
    pytest.importorskip("openai", reason="the extra openai is not installed")
    servers = []

    def start(*args, **kwargs):
        servers.append(SolutionServer(*args, **kwargs))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.mark.parametrize("form", [HERMES, LLAMA, NATIVE])
def test_react_solves_worlds_in_every_format_of_calls(awm, serve, tmp_path, form):
    from agentgym_ttg.envs.agentworldmodel.env import AgentWorldModelEnv

    env = AgentWorldModelEnv(worlds=["library"], split="test", expert=True)
    server = serve(solutions(env, list(env.tasks)[:4], lambda text: text), form, broken=form == HERMES)
    out = tmp_path / form
    assert run([*LIBRARY, "--method", "react", "--base-url", server.url, "--episodes", "4", "--out", str(out)]) == 0
    found = results(out)
    assert (found["successes"], found["errors"]) == (4, 0)
    assert all("call_tool" in json.dumps(body.get("tools")) for body in server.asked)
    played = load_trajectories(out / "trajectories.jsonl")
    texts = [turn.observation for one in played for turn in one.turns]
    if form == HERMES:  # what could not be read came back as an observation to act on
        assert found["invalid_action_rate"] > 0
        assert any("not valid JSON" in text for text in texts)
    if form == NATIVE:  # and each result answered its call
        roles = [message["role"] for body in server.asked for message in body["messages"]]
        assert "tool" in roles


@pytest.mark.parametrize("form", [HERMES, LLAMA, NATIVE])
def test_react_answers_bfcl_in_every_format_of_calls(bfcl, serve, tmp_path, capsys, form):
    from agentgym_ttg.envs.bfcl.env import BFCLEnv

    env = BFCLEnv(categories=["simple", "parallel"], expert=True)
    server = serve(solutions(env, list(env.tasks)[:6], lambda text: text), form)
    out = tmp_path / form
    assert run([*SIMPLE, "--method", "react", "--base-url", server.url, "--episodes", "6", "--out", str(out)]) == 0
    found = results(out)
    assert found["successes"] == 6
    assert found["task_types"]["parallel"]["successes"] == 6
    assert found["scores"]["non_live"] == pytest.approx(1 / 5)  # parallel is one of its five parts
    assert found["scores"]["overall"] == pytest.approx(1 / 15)
    assert "official scores: overall 0.06667" in capsys.readouterr().out


@pytest.mark.parametrize("env", ["awm", "bfcl"])
def test_a_tiny_model_and_random_run_and_are_recorded(request, tmp_path, env):
    pytest.importorskip("torch", reason="the extra train is not installed")
    request.getfixturevalue(env)
    flags = LIBRARY if env == "awm" else SIMPLE
    more = ("--episodes", "3", "--max-steps", "4", "--num-envs", "3")
    for method in (("react", *TINY), ("random",), ("expert",)):
        out = tmp_path / method[0]
        assert run([*flags, "--method", *method, *more, "--out", str(out)]) == 0
        found = results(out)
        assert (found["complete"], found["episodes"], found["errors"]) == (True, 3, 0)
    assert results(tmp_path / "expert")["success_rate"] == 1.0
    file = tmp_path / "all.jsonl"
    split = ("--split", "train" if env == "awm" else "test")
    policies = ("--policies", "expert", "noisy:0.5", "random", "model:asset:alfworld_easy")
    assert (
        collect([*flags, *split, *policies, "--episodes", "8", "--max-response-tokens", "8", "--out", str(file)]) == 0
    )
    played = load_trajectories(file)
    assert {one.policy for one in played} == set(policies[1:])
    assert all(one.outcome != "error" for one in played)
    assert all(one.success for one in played if one.policy == "expert")


@pytest.mark.parametrize("env", ["PaperSearchQA", "BrowseCompPlus"])
def test_official_scores_of_searching_stand_in_the_results(tmp_path, capsys, env):
    pytest.importorskip("bm25s", reason="the extra search is not installed")
    out = tmp_path / "run"
    assert run(["--env", env, "--method", "expert", "--episodes", "4", "--out", str(out)]) == 0
    found = results(out)
    name = "accuracy_overall" if env == "PaperSearchQA" else "accuracy"
    assert found["scores"][name] == found["success_rate"]
    assert f"official scores: {name}" in capsys.readouterr().out


def test_environments_without_scores_of_their_own_show_none(tmp_path, capsys):
    out = tmp_path / "run"
    assert (
        run(["--env", "ALFWorld", "--method", "random", "--episodes", "2", "--max-steps", "2", "--out", str(out)]) == 0
    )
    assert results(out)["scores"] == {}
    assert "official" not in capsys.readouterr().out
