"""The OpenAI-compatible policy against a server that misbehaves in every way it should survive."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from agentgym_ttg.agents.policies import GenerationRequest, OpenAIPolicy, SamplingParams
from agentgym_ttg.core.actions import ToolFormat
from agentgym_ttg.core.errors import ConfigError, PolicyError
from agentgym_ttg.core.messages import Message, ToolCall

Reply = tuple[int, Any] | tuple[int, Any, dict[str, str]]


class Server:
    """A chat-completions server whose answers a test decides; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.behave: Callable[[dict[str, Any], int], Reply] = lambda body, number: (200, answer("hello"))
        self.at_once = self.most_at_once = 0
        lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send(200, {"object": "list", "data": [{"id": "only-one", "object": "model"}]}, {})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    server.asked.append(body)
                    server.headers.append({name.title(): value for name, value in self.headers.items()})
                    number = len(server.asked)
                    server.at_once += 1
                    server.most_at_once = max(server.at_once, server.most_at_once)
                try:
                    status, payload, *more = server.behave(body, number)
                finally:
                    with lock:
                        server.at_once -= 1
                if status == 0:  # hang up without an answer
                    self.close_connection = True
                    return
                self._send(status, payload, more[0] if more else {})

            def _send(self, status: int, payload: Any, headers: dict[str, str]) -> None:
                data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                """Stay quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()


def answer(content: str | None = None, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, **more.pop("message", {})}
    choice = {"index": 0, "message": message, "finish_reason": "stop", **more.pop("choice", {})}
    return {"id": "x", "object": "chat.completion", "choices": [choice], **more}


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.http.shutdown()
    server.http.server_close()


def policy_for(server: Server, **options: Any) -> OpenAIPolicy:
    return OpenAIPolicy(server.url, "m", **{"backoff": 0.001, "timeout": 5.0, **options})


def ask(*messages: Message, episode: str = "e", **more: Any) -> GenerationRequest:
    said = list(messages) or [Message("user", "Hi.")]
    return GenerationRequest(episode, said, {}, np.random.default_rng(0), **more)


def test_what_is_sent_and_what_comes_back(server: Server) -> None:
    server.behave = lambda body, number: (200, answer("go", usage={"prompt_tokens": 9, "completion_tokens": 2}))
    policy = policy_for(server)
    request = ask(
        Message("system", "Be brief."), Message("user", "Hi."), sampling=SamplingParams(0.7, 0.9, max_tokens=33)
    )
    (said,) = policy.generate([request])
    assert (str(said), said.finish_reason, said.token_ids) == ("go", "stop", None)
    body = server.asked[0]
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}]
    assert (body["model"], body["temperature"], body["top_p"], body["max_tokens"]) == ("m", 0.7, 0.9, 33)
    assert policy.usage == {"prompt_tokens": 9, "completion_tokens": 2}


def test_ids_and_logprobs_where_the_server_gives_them(server: Server) -> None:
    entries = {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1.5}]}
    full = answer("ab", choice={"logprobs": entries, "token_ids": [7, 8]}, prompt_token_ids=[1, 2, 3])
    named = {"content": [{"token": "token_id:7", "logprob": -0.5}]}
    replies = [
        full,
        answer("a", choice={"logprobs": named}),
        answer("ab", choice={"logprobs": {"content": entries["content"][:1]}, "token_ids": [7, 8]}),
        answer("ab", choice={"logprobs": entries}),
        answer("a", choice={"finish_reason": "length", "logprobs": None}),
    ]
    server.behave = lambda body, number: (200, replies[number - 1])
    policy = policy_for(server)
    first, second, third, fourth, fifth = (policy.generate([ask()])[0] for _ in replies)
    assert (first.token_ids, first.logprobs, first.prompt_ids) == ((7, 8), (-0.5, -1.5), (1, 2, 3))
    assert (second.token_ids, second.logprobs) == ((7,), (-0.5,))
    assert (third.token_ids, third.logprobs) == ((7, 8), None)
    assert (fourth.token_ids, fourth.logprobs) == (None, None)
    assert fifth.truncated


@pytest.mark.parametrize(
    "trouble",
    [
        (429, {"error": {"message": "slow down"}}, {"Retry-After": "0"}),
        (503, {"error": {"message": "loading"}}),
        (500, b"<html>oops</html>"),
        (200, b"not json at all"),
        (200, b"\xff\xfe"),
        (200, {"choices": []}),
        (200, [1, 2]),
        (200, answer("x", message={"content": [1]})),
        (0, None),
    ],
    ids=["429", "503", "500", "no-json", "no-text", "no-choice", "a-list", "odd-content", "hang-up"],
)
def test_passing_trouble_is_survived(server: Server, trouble: Reply) -> None:
    server.behave = lambda body, number: trouble if number <= 2 else (200, answer("at last"))
    policy = policy_for(server)
    assert policy.generate([ask()]) == ["at last"]
    assert policy.retries == 2


def test_lasting_trouble_is_reported_with_address_attempts_and_reason(server: Server) -> None:
    server.behave = lambda body, number: (503, {"error": {"message": "out of memory"}})
    policy = policy_for(server, max_retries=2)
    with pytest.raises(PolicyError, match=rf"{server.url}/v1.*'e7'.*3 attempts.*503.*out of memory"):
        policy.generate([ask(episode="e7")])
    assert len(server.asked) == 3


def test_a_hanging_server_is_given_up(server: Server) -> None:
    release = threading.Event()
    server.behave = lambda body, number: (release.wait(20), (0, None))[1]
    policy = policy_for(server, timeout=0.2, max_retries=1)
    with pytest.raises(PolicyError, match="2 attempts; last: APITimeoutError"):
        policy.generate([ask()])
    release.set()


def test_nobody_there() -> None:
    policy = OpenAIPolicy("http://127.0.0.1:9", "m", max_retries=1, backoff=0.001)
    with pytest.raises(PolicyError, match=r"127\.0\.0\.1:9.*APIConnectionError"):
        policy.generate([ask()])


@pytest.mark.parametrize("status", [401, 404, 400])
def test_what_will_not_get_better_is_not_retried_and_the_key_stays_secret(server: Server, status: int) -> None:
    key = "sk-very-secret"
    server.behave = lambda body, number: (status, {"error": {"message": f"no good: {key}"}})
    policy = policy_for(server, api_key=key)
    with pytest.raises(PolicyError, match="1 attempt;") as caught:
        policy.generate([ask()])
    assert len(server.asked) == 1
    assert server.headers[0]["Authorization"] == f"Bearer {key}"
    assert key not in str(caught.value) + repr(policy)


def test_an_empty_purse_is_not_waited_for(server: Server) -> None:
    server.behave = lambda body, number: (429, {"error": {"message": "pay", "code": "insufficient_quota"}})
    with pytest.raises(PolicyError, match="429"):
        policy_for(server).generate([ask()])
    assert len(server.asked) == 1


def test_the_pause_asked_for_is_honoured(server: Server) -> None:
    seen: list[float] = []

    def behave(body: dict[str, Any], number: int) -> Reply:
        seen.append(time.monotonic())
        return (429, {}, {"Retry-After": "0.4"}) if number == 1 else (200, answer("ok"))

    server.behave = behave
    policy_for(server, backoff=0.0).generate([ask()])
    assert seen[1] - seen[0] >= 0.4


def test_a_server_that_does_not_know_the_extras_is_asked_without_them(server: Server) -> None:
    def behave(body: dict[str, Any], number: int) -> Reply:
        for field in ("return_token_ids", "logprobs", "max_tokens"):
            if field in body:
                return 400, {"error": {"message": f"Unrecognized request argument supplied: {field}"}}
        return 200, answer("fine")

    server.behave = behave
    policy = policy_for(server)
    assert policy.generate([ask(sampling=SamplingParams(max_tokens=5))]) == ["fine"]
    assert server.asked[-1]["max_completion_tokens"] == 5
    asked = len(server.asked)
    policy.generate([ask()])
    assert len(server.asked) == asked + 1  # remembered


def test_too_long_a_prompt_is_an_empty_answer_and_counted(server: Server) -> None:
    text = "This model's maximum context length is 2048 tokens. However, you requested 4000 tokens."
    server.behave = lambda body, number: (400, {"error": {"message": text}})
    policy = policy_for(server)
    (said,) = policy.generate([ask()])
    assert (str(said), said.finish_reason, said.token_ids, policy.overflows) == ("", "length", (), 1)


def test_native_calls_come_back_as_text_that_the_environment_reads(server: Server) -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"x": 1}'}},
        {"id": "b", "type": "function", "function": {"name": "sub", "arguments": "{broken"}},
    ]
    server.behave = lambda body, number: (200, answer(None, message={"tool_calls": calls, "reasoning_content": "hm"}))
    tools = [{"name": "add", "parameters": {"type": "object"}}]
    (said,) = policy_for(server).generate([ask(tools=tools)])
    action = ToolFormat().parse(said)
    assert action.reasoning == "hm"
    assert action.calls[0] == ToolCall("add", {"x": 1})
    assert not isinstance(action.calls[1], ToolCall)
    assert server.asked[0]["tools"] == [{"type": "function", "function": tools[0]}]


def test_the_history_of_calls_is_what_strict_servers_expect(server: Server) -> None:
    said = "I add." + ToolCall("add", {"x": 1}).to_hermes() + ToolCall("sub", {}).to_hermes()
    history = [
        Message("user", "Go."),
        Message("assistant", said),
        Message("tool", "one", name="add"),
        Message("tool", "two", name="sub"),
        Message("assistant", "no call"),
        Message("tool", "an error message"),
        Message("assistant", ToolCall("add", {}).to_hermes()),
        Message("user", "Stop."),
    ]
    policy_for(server).generate([ask(*history, tools=[{"name": "add"}])])
    sent = server.asked[0]["messages"]
    ids = [call["id"] for call in sent[1]["tool_calls"]]
    assert sent[1]["content"] == "I add."
    assert [(m["role"], m.get("tool_call_id")) for m in sent[2:4]] == [("tool", ids[0]), ("tool", ids[1])]
    assert [m["role"] for m in sent[4:]] == ["assistant", "user", "assistant", "user"]
    owed = {call["id"] for message in sent for call in message.get("tool_calls", ())}
    assert owed == {message["tool_call_id"] for message in sent if message["role"] == "tool"}


def test_tools_can_be_described_in_words(server: Server) -> None:
    policy = policy_for(server, native_tools=False)
    said = ToolCall("add", {"x": 1}).to_hermes()
    policy.generate(
        [ask(Message("system", "S."), Message("user", "Go."), Message("assistant", said), Message("tool", "2"),
             tools=[{"name": "add"}])]
    )  # fmt: skip
    sent = server.asked[0]
    assert "tools" not in sent
    assert sent["messages"][0]["content"].startswith("S.\n\nYou can call tools")
    assert [m["role"] for m in sent["messages"]] == ["system", "user", "assistant", "user"]
    server.behave = lambda body, number: (400, {"error": {"message": '"auto" tool choice requires a tool parser'}})
    with pytest.raises(PolicyError, match="native_tools=False"):
        policy_for(server).generate([ask(tools=[{"name": "add"}])])


def test_order_is_kept_and_the_limit_of_requests_at_a_time_too(server: Server) -> None:
    def behave(body: dict[str, Any], number: int) -> Reply:
        time.sleep(0.02 if number % 2 else 0.0)
        return 200, answer(body["messages"][0]["content"].upper())

    server.behave = behave
    policy = policy_for(server, concurrency=3)
    texts = [f"episode {i}" for i in range(12)]
    assert policy.generate([ask(Message("user", t), episode=t) for t in texts]) == [t.upper() for t in texts]
    assert 2 <= server.most_at_once <= 3
    assert policy.generate([]) == []


def test_one_failure_ends_the_batch_without_waiting_for_the_rest(server: Server) -> None:
    def behave(body: dict[str, Any], number: int) -> Reply:
        bad = body["messages"][0]["content"] == "0"
        return (401, {}) if bad else (503, {}, {"Retry-After": "20"})

    server.behave = behave
    policy = policy_for(server)
    start = time.monotonic()
    with pytest.raises(PolicyError, match="401"):
        policy.generate([ask(Message("user", str(i)), episode=str(i)) for i in range(4)])
    assert time.monotonic() - start < 15


def test_settings_are_checked_and_the_only_model_is_found(server: Server) -> None:
    assert OpenAIPolicy(server.url).name == "only-one"
    with pytest.raises(ConfigError, match="http://host:port"):
        OpenAIPolicy("localhost:8000", "m")
    with pytest.raises(ConfigError, match="concurrency >= 1"):
        OpenAIPolicy(server.url, "m", concurrency=0)
    with pytest.raises(PolicyError, match="does not list its models"):
        OpenAIPolicy("http://127.0.0.1:9")
    policy = policy_for(server)
    policy.release(["e"])
    policy.close()
    policy.close()


def test_the_key_comes_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "abc")
    policy_for(server, api_key_env="MY_KEY").generate([ask()])
    assert server.headers[0]["Authorization"] == "Bearer abc"
