"""A small labelled set in the form of AgentProcessBench, and a tiny language model that can read it."""

import json

import numpy as np
import pytest

QUESTIONS = 30
SAMPLES = 3
GOOD, BAD = "the answer is near and the hint is green", "nothing useful and the hint is red"


def chat(query, sample, steps):
    """A chat of tool calls; steps are +1 or -1, and the tool's answer tells which."""
    messages = [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": f"question {query}: find the answer"},
    ]
    labels = {}
    for number, good in enumerate(steps):
        labels[str(len(messages))] = 1 if good else -1
        call = {"id": f"c{number}", "function": {"name": "search", "arguments": json.dumps({"q": "find"})}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append(
            {"role": "tool", "name": "search", "content": GOOD if good else BAD, "tool_call_id": f"c{number}"}
        )
    labels[str(len(messages))] = 1 if all(steps) else -1
    messages.append({"role": "assistant", "content": "the answer is here"})
    return {
        "query_index": query,
        "sample_index": sample,
        "data_source": "toy",
        "messages": messages,
        "step_labels": labels,
        "final_label": 1 if all(steps) else -1,
    }


@pytest.fixture
def record():
    """One valid record, to be broken."""
    return chat(0, 0, [True, False])


@pytest.fixture(scope="session")
def labelled_file(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("labelled") / "toy.jsonl"
    rows = [
        chat(query, sample, list(rng.random(int(rng.integers(1, 4))) < 0.7))
        for query in range(QUESTIONS)
        for sample in range(SAMPLES)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from agentgym_ttg.models.tiny import TinyConfig, build_tokenizer, make_tiny_model

    texts = [GOOD, BAD, "question find the answer is here", "You are helpful.", '{"name": "search", "arguments": {}}']
    tokenizer = build_tokenizer(texts * 4, 400)
    folder = tmp_path_factory.mktemp("tiny")
    make_tiny_model(tokenizer, TinyConfig(hidden=32, layers=2, heads=2, feed_forward=64), seed=0).save_pretrained(
        folder
    )
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def one_thread():
    """Tiny tensors are slower on several threads."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
