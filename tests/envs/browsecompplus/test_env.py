"""The environment's protocol, and its judges."""

import http.server
import json
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_ttg.core.errors import ConfigError, EngineError
from agentgym_ttg.core.messages import ToolCall
from agentgym_ttg.core.tokenizers import load_tokenizer
from agentgym_ttg.envs.browsecompplus.env import BrowseCompPlusEnv
from agentgym_ttg.envs.browsecompplus.judges import FinalAnswer, read_answer

pytest.importorskip("bm25s", reason="BM25 needs the extra 'search'")


@pytest.fixture
def env():
    env = BrowseCompPlusEnv(expert=True, get_document=True)
    yield env
    env.close()


def call(name, **arguments):
    return ToolCall(name, arguments).to_hermes()


def final(answer, confidence=80):
    return f"Explanation: because.\nExact Answer: {answer}\nConfidence: {confidence}%"


def contents(info):
    return [json.loads(message["content"]) for message in info["messages"]]


def test_the_expert_finds_all_evidence_and_answers_every_query(env):
    episodes = []
    for task_id in env.tasks:
        _, info = env.reset(seed=0, options={"task_id": task_id})
        over = False
        while not over:
            *_, terminated, truncated, info = env.step(info["expert_action"])
            assert info["action_valid"]
            over = terminated or truncated
        episodes.append((info["task_type"], info["success"], info["metrics"]))
    summary = env.summarize(episodes)
    assert (summary["accuracy"], summary["evidence_recall"], summary["calibration_error"]) == (1.0, 1.0, 0.0)


def test_search_shows_ids_and_snippets_and_get_document_the_whole(env):
    observation, info = env.reset(seed=0)
    assert "Exact Answer:" in observation
    assert [tool["function"]["name"] for tool in info["tools"]] == ["search", "get_document"]
    *_, info = env.step(call("search", query="research institute library"))
    (found,) = contents(info)
    assert len(found) == 5
    assert set(found[0]) == {"docid", "score", "snippet"}
    assert [hit["score"] for hit in found] == sorted((hit["score"] for hit in found), reverse=True)
    *_, info = env.step(call("get_document", docid=found[0]["docid"]))
    (document,) = contents(info)
    assert document["text"].startswith(found[0]["snippet"])
    assert info["action_valid"]
    *_, info = env.step(call("get_document", docid="no such"))
    assert "no document" in contents(info)[0]["error"]
    assert info["action_valid"]


def test_snippets_are_limited_in_tokens():
    env = BrowseCompPlusEnv(snippet_tokens=7, top_k=2)
    env.reset(seed=0)
    *_, info = env.step(call("search", query="prize money"))
    (found,) = contents(info)
    assert len(found) == 2
    assert all(0 < len(load_tokenizer().encode(hit["snippet"])) <= 7 for hit in found)


def test_wrong_calls_are_answered_and_right_ones_beside_them_still_run(env):
    env.reset(seed=0)
    message = call("search", query="river") + call("find", query="x") + "<tool_call>{broken</tool_call>"
    *_, terminated, _, info = env.step(message + call("search", q="x") + call("search", query=5))
    assert not terminated
    assert not info["action_valid"]
    assert info["metrics"]["searches"] == 1
    found, unknown, broken, named, typed = contents(info)
    assert len(found) == 5
    assert "no tool 'find'" in unknown["error"]
    assert "JSON" in broken["error"]
    assert "'query'" in named["error"]
    assert "string" in typed["error"]
    plain = BrowseCompPlusEnv()
    plain.reset(seed=0)
    *_, info = plain.step(call("get_document", docid="5000"))
    assert not info["action_valid"]
    assert "no tool" in contents(info)[0]["error"]


def test_the_answer_form_is_asked_for_and_the_exact_answer_decides(env):
    _, info = env.reset(seed=0)
    right = env.data.queries[info["task_id"]].answer
    observation, _, terminated, _, info = env.step(f"It is {right}.")
    assert not terminated
    assert not info["action_valid"]
    assert "Exact Answer:" in observation
    _, reward, terminated, _, info = env.step(final(f"**{right}**", 70))
    assert terminated
    assert reward == 1.0
    assert info["metrics"]["confidence"] == 0.7
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(final(f"not {right}"))
    assert terminated
    assert reward == 0.0
    assert not info["success"]


def test_reading_the_answer_form():
    assert read_answer("**Exact Answer:** Ohrid\n**Confidence:** 65.5 %") == FinalAnswer("Ohrid", 0.655)
    assert read_answer("Exact Answer: a\nExact Answer: b\nConfidence: 900%") == FinalAnswer("b", 1.0)
    assert read_answer("The exact answer is b") == FinalAnswer("", None)


def test_random_admissible_actions_are_valid(env):
    for number in range(10):
        _, info = env.reset(seed=number)
        for step in range(4):
            action = info["admissible_actions"][(number + step) % len(info["admissible_actions"])]
            *_, terminated, truncated, info = env.step(env.format.render(action))
            assert info["action_valid"]
            if terminated or truncated:
                break


def test_branching_restores_what_was_found(env):
    _, info = env.reset(seed=1)
    env.step(info["expert_action"])
    point = env.snapshot()
    first = env.step(call("search", query="prize"))
    env.step(final("x"))
    env.restore(point)
    assert env.step(call("search", query="prize")) == first


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text() | st.text().map(lambda text: call("search", query=text)) | st.text().map(final))
def test_hostile_messages_never_raise_and_never_win(env, text):
    env.reset(seed=2)
    _, reward, *_, info = env.step(text)
    assert reward == 0.0
    assert not info["success"]


@pytest.fixture
def judge_server():
    """An OpenAI-compatible server that judges by a word in the response."""
    seen, status = [], [200]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append((self.path, body))
            said = {"correct": "surely" in body["messages"][0]["content"].split("<response>")[1]}
            answer = {"choices": [{"message": {"content": f"Thinking. {json.dumps(said)}"}}]}
            self.send_response(status[0])
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1", seen, status
    server.shutdown()
    server.server_close()


def test_a_judge_model_decides_and_is_named_in_the_results(judge_server):
    url, seen, status = judge_server
    env = BrowseCompPlusEnv(judge=f"llm:judge-1@{url}")
    assert env.tasks.source == "built-in, judge llm:judge-1"
    assert BrowseCompPlusEnv().tasks.source == "built-in, judge exact"
    _, info = env.reset(seed=0)
    _, reward, terminated, _, _ = env.step("I say surely so, in no form.")
    assert terminated
    assert reward == 1.0
    path, body = seen[0]
    assert path == "/v1/chat/completions"
    assert body["model"] == "judge-1"
    assert env.data.queries[info["task_id"]].answer in body["messages"][0]["content"]
    env.reset(seed=0)
    assert env.step(final("perhaps"))[1] == 0.0
    status[0] = 400
    env.reset(seed=0)
    with pytest.raises(EngineError, match="status 400"):
        env.step(final("perhaps"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"judge": "gpt"}, "unknown judge"),
        ({"judge": "llm:x@ftp://y"}, "expected a judge as"),
        ({"top_k": 0}, "top_k >= 1"),
        ({"split": "train"}, "unknown split"),
    ],
)
def test_settings_that_cannot_work(settings, message):
    with pytest.raises(ConfigError, match=message):
        BrowseCompPlusEnv(**settings)
