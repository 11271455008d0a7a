"""The environment's protocol."""

import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_ttg.core.errors import ConfigError, DataError, EngineError, UnknownTaskError
from agentgym_ttg.core.tokenizers import load_tokenizer
from agentgym_ttg.envs._search import make_server
from agentgym_ttg.envs.papersearchqa.env import PaperSearchQAEnv

pytest.importorskip("bm25s", reason="BM25 needs the extra 'search'")


@pytest.fixture
def env():
    env = PaperSearchQAEnv(split="test", expert=True)
    yield env
    env.close()


def play(env, policy, task_id):
    _, info = env.reset(seed=0, options={"task_id": task_id})
    steps = []
    while True:
        observation, reward, terminated, truncated, info = env.step(policy(info))
        steps.append((observation, reward, info))
        if terminated or truncated:
            return steps


def expert(info):
    return info["expert_action"]


def test_search_then_answer(env):
    observation, info = env.reset(seed=1)
    assert observation.startswith("Question: ")
    assert observation.endswith("?")
    assert info["metrics"] == {"em": 0.0, "searches": 0.0, "gold_hit_at_3": 0.0}
    observation, reward, terminated, _, info = env.step(info["expert_action"])
    assert observation.startswith("<information>\nDoc 1: ")
    assert observation.endswith("</information>")
    assert observation.count("\nDoc ") == 3
    assert (reward, terminated, info["action_valid"]) == (0.0, False, True)
    while not terminated:
        _, reward, terminated, _, info = env.step(info["expert_action"])
    assert reward == 1.0
    assert info["success"]
    assert info["metrics"]["em"] == 1.0
    assert info["metrics"]["gold_hit_at_3"] == 1.0


def test_the_expert_answers_every_kind_of_question_from_what_it_has_seen(env):
    kinds = {}
    for task_id in env.tasks:
        question = env.data.split("test")[task_id]
        if len(kinds.setdefault(question.task_type, [])) < 6:
            steps = play(env, expert, task_id)
            kinds[question.task_type].append(steps[-1][2]["success"])
            shown = "".join(observation for observation, _, _ in steps[:-1]).lower()
            assert any(answer.lower() in shown for answer in question.golden_answers)
            assert len(steps) == 1 + len(question.hops)
    assert set(kinds) == {f"{hop}/{form}" for hop in ("single-hop", "two-hop") for form in ("original", "paraphrased")}
    assert all(all(results) for results in kinds.values())


def test_the_last_answer_counts_and_a_bare_answer_is_none(env):
    _, info = env.reset(seed=1)
    right = env.data.split("test")[info["task_id"]].answer
    observation, reward, terminated, _, info = env.step(right)
    assert not terminated
    assert not info["action_valid"]
    assert reward == 0
    assert "<search>" in observation
    assert "<answer>" in observation
    _, reward, terminated, _, info = env.step(f"<answer>wrong</answer> no: <answer>The {right}.</answer>")
    assert terminated
    assert reward == 1.0
    assert info["success"]
    env.reset(seed=1)
    _, reward, terminated, _, info = env.step(f"<answer>{right}</answer> no: <answer>wrong</answer>")
    assert terminated
    assert reward == 0.0
    assert not info["success"]
    env.reset(seed=1)
    _, reward, terminated, _, _ = env.step(f"<think><answer>{right}</answer></think>")
    assert not terminated
    assert reward == 0.0


@pytest.mark.parametrize(("split", "allowed"), [("train", 2), ("test", 5)])
def test_searches_are_limited_by_split(split, allowed):
    env = PaperSearchQAEnv(split=split)
    env.reset(seed=0)
    for number in range(1, allowed + 1):
        observation, *_, info = env.step("<search>metformin</search>")
        assert info["action_valid"]
        assert ("No searches are left" in observation) == (number == allowed)
    assert not any(action.startswith("<search>") for action in info["admissible_actions"])
    observation, _, terminated, truncated, info = env.step("<search>aspirin</search>")
    assert not info["action_valid"]
    assert "No searches are left" in observation
    assert "<information>" not in observation
    assert info["metrics"]["searches"] == allowed
    assert not terminated
    assert not truncated
    env.step("babble")
    *_, truncated, info = env.step("babble")
    assert truncated
    assert not info["success"]
    assert info["metrics"]["em"] == 0.0


def test_observations_stay_within_their_tokens():
    tokenizer = load_tokenizer()
    for limit, each in ((500, None), (60, None), (500, 8)):
        env = PaperSearchQAEnv(difficulty="hard", max_observation_tokens=limit, passage_tokens=each, top_k=5)
        env.reset(seed=0)
        for query in ("hypertension treatment", "metformin", "xyzzy"):
            for observation in [env.step(f"<search>{query}</search>")[0]] * (env._searches_left >= 0):
                assert len(tokenizer.encode(observation)) <= limit
                if each and "Doc 1" in observation:
                    assert all(len(tokenizer.encode(line)) <= each for line in observation.split("\n")[1:-1][:5])
            env.reset(seed=0)


def test_random_admissible_actions_are_valid_to_the_end(env):
    for number, task_id in enumerate(env.tasks[:20]):
        _, info = env.reset(seed=number, options={"task_id": task_id})
        over = False
        while not over:
            assert info["admissible_actions"]
            action = info["admissible_actions"][number % len(info["admissible_actions"])]
            *_, terminated, truncated, info = env.step(env.format.render(action))
            assert info["action_valid"]
            over = terminated or truncated


def test_branching_restores_searches_and_passages(env):
    _, _info = env.reset(seed=4)
    env.step("<search>metformin class</search>")
    point = env.snapshot()
    first = env.step("<search>aspirin class</search>")
    env.step("<answer>x</answer>")
    env.restore(point)
    assert env.step("<search>aspirin class</search>") == first


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text() | st.text().map("<search>{}</search>".format) | st.text().map("<answer>{}</answer>".format))
def test_hostile_messages_never_raise_and_never_win(env, text):
    env.reset(seed=2)
    _, reward, *_, info = env.step(text)
    assert reward == 0.0
    assert not info["success"]
    assert info["episode_tokens"] >= 0


def test_a_served_index_answers_as_the_local_one(env):
    server = make_server(env.retriever)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        remote = PaperSearchQAEnv(split="test", retriever="http://{}:{}".format(*server.server_address))
        for each in (env, remote):
            each.reset(seed=3)
        message = "<search>gout treatment</search>"
        assert env.step(message)[0] == remote.step(message)[0]
    finally:
        server.shutdown()
        server.server_close()
    remote.retriever._retries = 0
    with pytest.raises(EngineError, match="does not answer"):
        remote.step(message)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"difficulty": "esy"}, "did you mean 'easy'"),
        ({"top_k": 0}, "top_k >= 1"),
        ({"max_searches": -1}, "max_searches >= 0"),
        ({"max_observation_tokens": 3}, "max_observation_tokens >= 32"),
        ({"retriever": "bm52"}, "unknown retriever"),
        ({"data": "official"}, "needs data_dir"),
        ({"data": "built-in", "data_dir": "x"}, "leave one out"),
        ({"action_format": "plain"}, "takes tags"),
        ({"split": "tset"}, "did you mean 'test'"),
    ],
)
def test_settings_that_cannot_work(settings, message):
    with pytest.raises(ConfigError, match=message):
        PaperSearchQAEnv(**settings)


def test_unknown_tasks_and_missing_data(env, tmp_path):
    with pytest.raises(UnknownTaskError, match="nearest"):
        env.reset(options={"task_id": "builtin/easy/test/999999"})
    with pytest.raises(DataError, match="does not exist"):
        PaperSearchQAEnv(data_dir=tmp_path / "nothing")


def test_summary_by_wording():
    episodes = [
        ("single-hop/original", True, {"searches": 1.0, "gold_hit_at_3": 1.0}),
        ("two-hop/original", False, {"searches": 2.0, "gold_hit_at_3": 0.5}),
        ("single-hop/paraphrased", True, {"searches": 3.0}),
    ]
    assert PaperSearchQAEnv.summarize(episodes) == pytest.approx(
        {
            "accuracy_overall": 2 / 3,
            "accuracy_original": 0.5,
            "accuracy_paraphrased": 1.0,
            "searches": 2.0,
            "gold_hit_at_3": 0.75,
        }
    )
    assert PaperSearchQAEnv.summarize([]) == {}
