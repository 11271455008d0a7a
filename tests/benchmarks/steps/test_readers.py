"""Labelled data that is read as it is meant, and errors that name the record."""

import json
import lzma

import pytest

from agentgym_ttg.benchmarks.steps import agentprocessbench, whowhen
from agentgym_ttg.benchmarks.steps.records import load_records
from agentgym_ttg.core.errors import DataError


def read(record, **options):
    return agentprocessbench.read_record("set.jsonl, line 7", record, **options)


def test_every_assistant_message_is_a_step_with_its_label(record):
    found = read(record)
    assert found.labels.tolist() == [1, -1, -1]
    assert [turn.metadata["message"] for turn in found.trajectory.turns] == [2, 4, 6]
    first, second, last = found.trajectory.turns
    assert [message.role for message in first.messages] == ["system", "user"]
    assert '"name": "search"' in str(first.completion)
    assert first.observation == record["messages"][3]["content"]
    assert [message.role for message in second.messages] == ["tool"]
    assert str(last.completion) == "the answer is here"
    assert found.trajectory.outcome == "failure"
    assert found.query == "toy/0"


def test_long_tool_answers_are_clipped_and_the_task_is_not(record):
    record["messages"][1]["content"] = "task " * 50
    record["messages"][3]["content"] = "a" * 50 + "b" * 50
    turns = read(record, clip=10).trajectory.turns
    assert turns[0].messages[1].content == "task " * 50
    assert turns[1].messages[0].content == "aaaaa…bbbbb"


def labels(**changes):
    def change(record):
        record["step_labels"] = {**record["step_labels"], **changes}

    return change


def put(name, value):
    return lambda record: record.__setitem__(name, value)


def without(name):
    return lambda record: record.pop(name)


BROKEN = {
    "index beyond the messages": (labels(**{"99": 1}), "names message 99, but there are 7 messages"),
    "index of a tool message": (labels(**{"3": 1}), "names message 3, which is of the role 'tool'"),
    "negative index": (labels(**{"-1": 1}), "indices in strings, got '-1'"),
    "word for an index": (labels(two=1), "indices in strings, got 'two'"),
    "leading zero": (labels(**{"02": 1}), "indices in strings, got '02'"),
    "number for a key": (lambda r: r["step_labels"].__setitem__(2, 1), "indices in strings, got 2"),
    "missing label": (lambda r: r["step_labels"].pop("4"), "no label for the assistant messages 4"),
    "no labels at all": (without("step_labels"), "'step_labels' is missing"),
    "labels as a list": (put("step_labels", [1, 1]), "expected 'step_labels' as dict, got list"),
    "label of another kind": (labels(**{"4": 0.5}), "label of message 4 as -1, 0 or 1, got 0.5"),
    "label as a truth value": (labels(**{"4": True}), "label of message 4 as -1, 0 or 1, got True"),
    "no outcome": (without("final_label"), "'final_label' is missing"),
    "outcome of another kind": (put("final_label", 7), "final_label -1, 0 or 1, got 7"),
    "no messages": (put("messages", []), "no assistant message among its 0 messages"),
    "no assistant message": (
        put("messages", [{"role": "user", "content": "hi"}]),
        "no assistant message among its 1 messages",
    ),
    "message without a role": (lambda r: r["messages"][1].pop("role"), "message 1: expected role"),
    "message that is a text": (lambda r: r["messages"].__setitem__(1, "hi"), "message 1 as an object, got str"),
    "content that is a list": (lambda r: r["messages"][1].__setitem__("content", [1]), "message 1: expected message"),
    "call without a function": (
        lambda r: r["messages"][2].__setitem__("tool_calls", [{}]),
        "message 2 names no function",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_record_is_named_with_what_is_wrong(name, record):
    change, message = BROKEN[name]
    change(record)
    with pytest.raises(DataError) as error:
        read(record)
    assert message in str(error.value)
    assert "set.jsonl, line 7" in str(error.value)
    assert "query 0, sample 0" in str(error.value)


def test_a_record_without_its_question_is_refused(record):
    del record["query_index"]
    with pytest.raises(DataError, match="line 7: expected query_index"):
        read(record)


def test_a_key_that_stands_twice_is_refused(tmp_path, record):
    path = tmp_path / "twice.jsonl"
    path.write_text("\n" + json.dumps(record).replace('"2": 1', '"2": 1, "2": -1') + "\n")
    with pytest.raises(DataError, match=r"twice.jsonl, line 2: .*'2' stands twice"):
        load_records(path, agentprocessbench.read_record)


@pytest.mark.parametrize("text", ["{", "[1]", '"x"', "1"])
def test_a_line_that_is_no_record_is_named(tmp_path, text):
    path = tmp_path / "broken.jsonl"
    path.write_text(text + "\n")
    with pytest.raises(DataError, match=r"broken.jsonl, line 1"):
        load_records(path, agentprocessbench.read_record)


def test_compressed_files_and_folders_are_read(tmp_path, record):
    with lzma.open(tmp_path / "b.jsonl.xz", "wt") as file:
        file.write(json.dumps(record | {"sample_index": 1}) + "\n")
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    (tmp_path / "notes.txt").write_text("no data")
    found = load_records(tmp_path, agentprocessbench.read_record)
    assert [one.trajectory.metadata["sample"] for one in found] == [0, 1]
    assert len(load_records(tmp_path, agentprocessbench.read_record, limit=1)) == 1


def test_a_torn_archive_is_told(tmp_path):
    whole = lzma.compress(b'{"a": 1}\n' * 1000)
    (tmp_path / "torn.jsonl.xz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cannot read"):
        load_records(tmp_path, lambda place, record: record)


@pytest.mark.parametrize("name", ["nothing.jsonl", "."])
def test_no_data_is_told(tmp_path, name):
    with pytest.raises(DataError, match=r"no data at|no \.jsonl"):
        load_records(tmp_path / name, agentprocessbench.read_record)


def failed():
    return {
        "id": "9",
        "question": "how many?",
        "ground_truth": "SECRET-8",
        "mistake_reason": "SECRET-REASON",
        "mistake_agent": "B",
        "mistake_step": "1",
        "history": [
            {"name": "A", "role": "user", "content": "let us count"},
            {"name": "B", "role": "assistant", "content": "seven"},
        ],
    }


def test_every_message_of_a_failed_log_is_a_step():
    found = whowhen.read_record("log", failed())
    assert found.mistake == 1
    assert [str(turn.completion) for turn in found.trajectory.turns] == ["let us count", "seven"]
    shown = " ".join(message.content for turn in found.trajectory.turns for message in turn.messages)
    assert "how many?" in shown
    assert "[B]" in shown
    assert "SECRET" not in shown


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("mistake_step", "2"), "mistake_step is 2, but the history has 2 steps"),
        (put("mistake_step", -1), "mistake_step is -1"),
        (put("mistake_step", "B"), "index of a step, got 'B'"),
        (put("mistake_step", True), "expected 'mistake_step' as str or int, got bool"),
        (without("mistake_step"), "'mistake_step' is missing"),
        (put("history", []), "holds no message"),
        (put("history", ["text"]), "message 0 of the history"),
        (without("question"), "'question' is missing"),
    ],
)
def test_a_broken_log_is_named_with_what_is_wrong(change, message):
    record = failed()
    change(record)
    with pytest.raises(DataError) as error:
        whowhen.read_record("log.jsonl, line 3", record)
    assert message in str(error.value)
    assert "log.jsonl, line 3 (id 9)" in str(error.value)
