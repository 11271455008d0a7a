"""The judge asks a server about each step, and reads its verdicts strictly."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from agentgym_ttg.core import PolicyError
from agentgym_ttg.scorers import ScorerSettings, get_scorer
from agentgym_ttg.scorers.llm_judge import read_verdict


@pytest.fixture
def server():
    """Thinks that looking is useless, opening a drawer wrong, and has no clear opinion on taking things."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body["messages"])
            step = body["messages"][-1]["content"].partition("<step>\n")[2].partition("\n</step>")[0]
            said = {"look": "<score>0</score>", "open drawer 2": "No. <score>-1</score>"}.get(step, "<score>1</score>")
            said = "hard to say" if step.startswith("take") else said
            message = {"role": "assistant", "content": said}
            usage = {"prompt_tokens": 50, "completion_tokens": 5}
            data = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(data.encode())

        def log_message(self, *args):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
    http.asked = asked
    yield http
    http.shutdown()
    http.server_close()


def test_every_step_is_asked_about_without_what_came_later(server, conversations):
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    scorer = get_scorer("llm-judge", ScorerSettings(base_url=url, model="judge", concurrency=3))
    rows = scorer.step_scores(conversations)
    verdicts = {"go to desk 1": 1.0, "look": 0.0, "open drawer 2": -1.0, "take mug 1 from desk 1": np.nan}
    for trajectory, row in zip(conversations, rows, strict=True):
        np.testing.assert_array_equal(row, [verdicts[str(turn.completion)] for turn in trajectory.turns])
    steps = sum(map(len, conversations))
    assert len(server.asked) == steps
    assert scorer.tokens_scored == 55 * steps
    assert scorer.unreadable == sum(int(np.isnan(row).sum()) for row in rows)
    longest = conversations[2]
    histories = [messages[-1]["content"].partition("</history>")[0] for messages in server.asked]
    assert max(text.count("[agent]") for text in histories) == len(longest) - 1
    assert not any(word in text for text in histories for word in ("success", "failure"))


def test_a_server_that_is_not_there_is_an_error_that_names_the_step(conversations, monkeypatch):
    scorer = get_scorer("llm-judge", ScorerSettings(base_url="http://127.0.0.1:9/v1", model="judge"))
    scorer.server.max_retries = 0
    with pytest.raises(PolicyError, match="about step 0 of 't1'"):
        scorer.step_scores(conversations[1:2])


@pytest.mark.parametrize(
    ("text", "score"),
    [("<score>0.5</score>", 0.5), ("<score>-7</score>", -1), ("<score>1</score> no, <score> -1 </score>", -1)],
)
def test_the_last_score_counts_and_is_cut_to_the_scale(text, score):
    assert read_verdict(text) == score


@pytest.mark.parametrize("text", ["", "1", "<score>good</score>", "<score></score>", "score: 1"])
def test_what_is_no_score_is_no_number(text):
    assert np.isnan(read_verdict(text))
