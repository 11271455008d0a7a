# ruff: noqa: E402 - imports behind importorskip
"""The OpenAI-compatible policy against a real server: ``transformers serve`` with the tiny model."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

for package, extra in (("openai", "openai"), ("transformers", "train"), ("torch", "train")):
    pytest.importorskip(package, reason=f"the extra '{extra}' is not installed")
for package in ("fastapi", "uvicorn"):
    pytest.importorskip(package, reason="transformers serve needs it: pip install 'transformers[serving]'")

from agentgym_ttg.agents.policies import GenerationRequest, OpenAIPolicy, SamplingParams
from agentgym_ttg.agents.warm_start import WarmStartConfig, train_warm_start
from agentgym_ttg.core.completion import Completion
from agentgym_ttg.core.errors import PolicyError
from agentgym_ttg.core.messages import Message
from agentgym_ttg.core.trajectory import Trajectory, Turn
from agentgym_ttg.models.tiny import TinyConfig

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that says ``open it`` whatever it is told."""
    turn = Turn((Message("user", "There is a box."),), Completion("open it"))
    folder = tmp_path_factory.mktemp("served") / "tiny"
    shape = TinyConfig(hidden=32, layers=1, heads=2, feed_forward=32, vocab=300, context=128)
    config = WarmStartConfig(updates=30, batch_size=4, learning_rate=1e-2, tiny=shape)
    train_warm_start([Trajectory("toy", "t", turns=[turn])] * 8, config, folder)
    return folder


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("transformers")), "serve", "--host", "127.0.0.1", "--port", str(port),
             "--device", "cpu"],
            stdout=out, stderr=subprocess.STDOUT, env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 240
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"transformers serve did not start:\n{log.read_text(errors='replace')[-2000:]}")
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def test_a_real_server_answers_a_conversation(url: str, model: Path) -> None:
    policy = OpenAIPolicy(url, str(model), concurrency=2, timeout=200)
    chat = [Message("user", "There is a box.")]
    for _ in range(2):
        requests = [
            GenerationRequest(str(i), tuple(chat), {}, np.random.default_rng(0), SamplingParams(0.0, 1.0, 8))
            for i in range(3)
        ]
        said = policy.generate(requests)
        assert said == ["open it"] * 3
        assert {completion.finish_reason for completion in said} == {"stop"}
        chat += [Message("assistant", str(said[0])), Message("user", "There is a box.")]
    assert policy.usage["completion_tokens"] > 0


def test_a_model_that_the_server_does_not_have_is_reported(url: str) -> None:
    policy = OpenAIPolicy(url, "nobody/no-such-model", timeout=120, max_retries=0)
    with pytest.raises(PolicyError, match="no-such-model"):
        policy.generate([GenerationRequest("e", [Message("user", "Hi.")], {}, np.random.default_rng(0))])
