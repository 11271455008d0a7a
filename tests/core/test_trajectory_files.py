import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_ttg.core import (
    Completion,
    Message,
    Trajectory,
    TrajectoryFileError,
    TrajectoryWriter,
    Turn,
    export_parquet,
    iter_trajectories,
    load_trajectories,
)
from agentgym_ttg.core.trajectory import OUTCOMES
from agentgym_ttg.core.trajectory_files import trajectory_from_dict, trajectory_to_dict

NASTY = "a\u2028b\u0085c\x0b\x0c\x1c\x00\ud800\r\nd\r\ne\n"
# Two surrogates side by side are one character after any JSON round trip, so only lone ones are drawn.
TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.just("\ud800"), max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
IDS = st.lists(st.integers(0, 2**31), max_size=6)


def trajectory(task_id="t1", turns=2, text="go"):
    return Trajectory(
        "toy",
        task_id,
        policy="me",
        turns=[
            Turn((Message("user", f"obs {n}"),), Completion(text, token_ids=[n, 1], logprobs=[-0.5, -0.25]), tokens=2)
            for n in range(turns)
        ],
        outcome="success",
        total_reward=1.0,
    )


@st.composite
def turns(draw):
    ids = draw(st.none() | IDS)
    logprobs = None if ids is None else draw(st.none() | st.lists(FLOATS, min_size=len(ids), max_size=len(ids)))
    prompt = draw(st.none() | IDS)
    role = st.sampled_from(["system", "user", "assistant", "tool"])
    return Turn(
        messages=tuple(draw(st.lists(st.builds(Message, role, TEXT, TEXT, TEXT), max_size=2))),
        completion=Completion(
            draw(TEXT), token_ids=ids, logprobs=logprobs, prompt_ids=prompt, finish_reason=draw(FINISH)
        ),
        observation=draw(TEXT),
        reward=draw(FLOATS),
        tokens=draw(st.integers(0, 10**9)),
        anchor=draw(TEXT),
        valid=draw(st.booleans()),
        prompt_ids=None if prompt is None else tuple(prompt),
        metadata=draw(st.dictionaries(TEXT, TEXT | st.integers() | FLOATS, max_size=2)),
    )


FINISH = st.sampled_from(["stop", "length", "unknown"])
TRAJECTORIES = st.builds(
    Trajectory,
    TEXT,
    TEXT,
    TEXT,
    st.lists(turns(), max_size=4),
    st.sampled_from(OUTCOMES),
    FLOATS,
    st.lists(st.dictionaries(TEXT, TEXT, max_size=2), max_size=2),
    st.dictionaries(TEXT, st.lists(TEXT, max_size=2), max_size=2),
)


def same(a, b):
    fields = ("token_ids", "logprobs", "finish_reason")
    return a == b and all(
        getattr(x.completion, name) == getattr(y.completion, name)
        for x, y in zip(a.turns, b.turns, strict=True)
        for name in fields
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TRAJECTORIES, max_size=3))
def test_every_trajectory_survives_the_round_trip(tmp_path, trajectories):
    path = tmp_path / "t.jsonl"
    path.unlink(missing_ok=True)
    with TrajectoryWriter(path) as writer:
        for one in trajectories:
            writer.write(one)
    read = load_trajectories(path)
    assert len(read) == len(trajectories)
    assert all(same(a, b) for a, b in zip(read, trajectories, strict=True))
    assert path.read_bytes().count(b"\n") == len(trajectories)


def test_lines_are_split_on_newline_only(tmp_path):
    one = trajectory(task_id=NASTY, text=NASTY)
    one.turns[0].observation = NASTY
    one.metadata[NASTY] = NASTY
    with TrajectoryWriter(tmp_path / "t.jsonl") as writer:
        writer.write(one)
        writer.write(trajectory())
    first, second = load_trajectories(tmp_path / "t.jsonl")
    assert same(first, one)
    assert same(second, trajectory())


def test_prompts_that_extend_each_other_are_stored_once(tmp_path):
    one = trajectory(turns=0)
    prompt = tuple(range(1000))
    for turn in range(20):
        one.turns.append(Turn((), Completion("x", token_ids=[7, turn]), prompt_ids=prompt))
        prompt = (*prompt, 7, turn, 5, 5, 5)
    one.turns.append(Turn((), Completion("x", token_ids=[8]), prompt_ids=(0, 1, 99)))  # a window: a prompt of its own
    one.turns.append(Turn((), Completion("x", token_ids=[8]), prompt_ids=None))
    one.turns.append(Turn((), Completion("x", token_ids=[8]), prompt_ids=()))
    record = trajectory_to_dict(one)
    assert sum(len(turn.get("prompt_new", ())) for turn in record["turns"]) == 1000 + 19 * 3 + 1
    assert [turn.prompt_ids for turn in trajectory_from_dict(record).turns] == [turn.prompt_ids for turn in one.turns]


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_torn_last_line_is_passed_over_and_then_written_again(tmp_path, cut):
    path = tmp_path / "t.jsonl"
    with TrajectoryWriter(path) as writer:
        writer.write(trajectory("a"))
        writer.write(trajectory("b"))
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    assert [one.task_id for one in iter_trajectories(path)] == ["a"]
    with TrajectoryWriter(path) as writer:
        writer.write(trajectory("c"))
    assert [one.task_id for one in load_trajectories(path)] == ["a", "c"]


@pytest.mark.parametrize("content", [b"", b"{", b"x" * 200_000])
def test_a_file_that_is_nothing_but_a_torn_line_holds_nothing(tmp_path, content):
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    assert load_trajectories(path) == []
    with TrajectoryWriter(path) as writer:
        writer.write(trajectory("a"))
    assert [one.task_id for one in load_trajectories(path)] == ["a"]


WRITER = textwrap.dedent(
    """
    import sys
    from agentgym_ttg.core import Completion, Message, Trajectory, TrajectoryWriter, Turn, iter_trajectories
    path = sys.argv[1]
    with TrajectoryWriter(path) as writer:
        number = sum(1 for _ in iter_trajectories(path))
        print("open", flush=True)
        while True:
            turns = [Turn((Message("user", "x" * 5000),), Completion("y")) for _ in range(number % 7 * 20)]
            writer.write(Trajectory("toy", str(number), turns=turns))
            number += 1
    """
)


def test_a_writer_killed_at_any_moment_loses_at_most_its_last_line(tmp_path):
    path = tmp_path / "t.jsonl"
    before = 0
    for attempt in range(4):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"open\n"
        time.sleep(0.05 + 0.03 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        ids = [int(one.task_id) for one in iter_trajectories(path)]
        assert ids == list(range(len(ids)))  # nothing lost, nothing twice
        assert len(ids) >= before
        before = len(ids)
    assert before > 0


def test_a_reader_follows_a_growing_file(tmp_path):
    path = tmp_path / "t.jsonl"
    total, seen, problems = 60, [], []
    done = threading.Event()

    def read():
        while True:
            last_round = done.is_set()
            try:
                seen.append([one.task_id for one in iter_trajectories(path)])
            except TrajectoryFileError as error:
                problems.append(error)
            if last_round:
                return

    with TrajectoryWriter(path) as writer:
        reader = threading.Thread(target=read)
        reader.start()
        for number in range(total):
            writer.write(trajectory(str(number), turns=number % 5 * 10))
        done.set()
        reader.join()
    assert not problems
    everything = [str(number) for number in range(total)]
    assert all(ids == everything[: len(ids)] for ids in seen)
    assert seen[-1] == everything


def test_a_second_writer_is_refused_and_the_first_goes_on(tmp_path):
    path = tmp_path / "t.jsonl"
    with TrajectoryWriter(path) as writer:
        with pytest.raises(TrajectoryFileError, match="being written by another"):
            TrajectoryWriter(path)
        code = f"from agentgym_ttg.core import TrajectoryWriter; TrajectoryWriter({str(path)!r})"
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "being written by another" in other.stderr
        writer.write(trajectory("a"))
    with TrajectoryWriter(path):
        pass
    assert len(load_trajectories(path)) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "line 2"),
        (b"[1]", "not a trajectory record"),
        (b"\xff\xfe", "line 2"),
        (b"[" * 100_000, "line 2"),
        (b'{"schema_version": 1, "env_id": "e", "task_id": "t", "outcome": "won", "turns": []}', "outcome"),
        (b'{"env_id": "e", "task_id": "t", "outcome": "success", "turns": []}', "schema_version"),
        (b'{"schema_version": 99, "everything": "else"}', "newer than this version reads"),
        (b'{"schema_version": 1, "env_id": "e", "task_id": "t", "outcome": "success", "turns": '
         b'[{"messages": [], "text": "x", "token_ids": [1], "logprobs": []}]}', "turn 0"),
        (b'{"schema_version": 1, "env_id": "e", "task_id": "t", "outcome": "success", "turns": '
         b'[{"messages": [], "text": "x", "prompt_keep": 5, "prompt_new": []}]}', "prompt_keep"),
    ],
)  # fmt: skip
def test_a_corrupt_line_in_the_middle_is_named(tmp_path, line, message):
    path = tmp_path / "t.jsonl"
    good = json.dumps(trajectory_to_dict(trajectory())).encode()
    path.write_bytes(good + b"\n" + line + b"\n" + good + b"\n")
    reader = iter_trajectories(path)
    assert same(next(reader), trajectory())
    with pytest.raises(TrajectoryFileError, match=message) as caught:
        next(reader)
    assert "t.jsonl, line 2" in str(caught.value)


def test_fields_of_a_later_release_with_the_same_schema_are_ignored():
    record = {**trajectory_to_dict(trajectory()), "mood": "good"}
    record["turns"][0]["colour"] = "red"
    assert same(trajectory_from_dict(record), trajectory())


def test_blank_lines_are_nothing(tmp_path):
    path = tmp_path / "t.jsonl"
    good = json.dumps(trajectory_to_dict(trajectory())).encode()
    path.write_bytes(b"\n" + good + b"\n\n  \n")
    assert len(load_trajectories(path)) == 1


def test_several_files_are_read_in_order(tmp_path):
    for name in ("b", "a"):
        with TrajectoryWriter(tmp_path / name) as writer:
            writer.write(trajectory(name))
    assert [one.task_id for one in load_trajectories([tmp_path / "b", str(tmp_path / "a")])] == ["b", "a"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_what_json_cannot_hold_is_refused_and_nothing_is_written(tmp_path, value):
    path = tmp_path / "t.jsonl"
    bad = trajectory()
    bad.metadata["x"] = value
    with TrajectoryWriter(path) as writer:
        with pytest.raises(TrajectoryFileError, match="cannot be written"):
            writer.write(bad)
        writer.write(trajectory())
    assert len(load_trajectories(path)) == 1


@pytest.fixture
def small_disk():
    """Files may grow to 10,000 bytes, and the kernel answers with an error instead of a signal."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    yield 10_000
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_leaves_whole_lines(tmp_path, small_disk):
    path = tmp_path / "t.jsonl"
    with TrajectoryWriter(path) as writer:
        writer.write(trajectory("a"))
        size = path.stat().st_size
        with pytest.raises(TrajectoryFileError, match=r"cannot write .*t\.jsonl"):
            writer.write(trajectory("b", turns=1000))
        assert path.stat().st_size == size
        writer.write(trajectory("c"))
    assert [one.task_id for one in load_trajectories(path)] == ["a", "c"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_no_space_is_said(tmp_path):
    with pytest.raises(TrajectoryFileError, match="No space left"), TrajectoryWriter("/dev/full") as writer:
        writer.write(trajectory())


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(TrajectoryFileError, match="cannot make the folder"):
        TrajectoryWriter(tmp_path / "file" / "run" / "t.jsonl")
    with pytest.raises(TrajectoryFileError, match="Is a directory"):
        TrajectoryWriter(tmp_path)
    with pytest.raises(TrajectoryFileError, match="cannot read"):
        load_trajectories(tmp_path / "missing.jsonl")
    with pytest.raises(TrajectoryFileError, match="cannot read"):
        load_trajectories(tmp_path)


def test_a_closed_writer_writes_no_more(tmp_path):
    writer = TrajectoryWriter(tmp_path / "new" / "folder" / "t.jsonl")
    writer.close()
    writer.close()
    with pytest.raises(TrajectoryFileError, match="closed"):
        writer.write(trajectory())


def test_ctrl_c_in_the_middle_of_a_line_leaves_whole_lines(tmp_path):
    path = tmp_path / "t.jsonl"
    writer = TrajectoryWriter(path)
    writer.write(trajectory("a"))

    class Interrupted:
        """A file whose next write gets half way."""

        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return getattr(self.file, name)

        def write(self, data):
            self.file.write(data[: len(data) // 2])
            raise KeyboardInterrupt

    writer._file, file = Interrupted(writer._file), writer._file
    with pytest.raises(KeyboardInterrupt):
        writer.write(trajectory("b"))
    writer._file = file
    writer.write(trajectory("c"))
    writer.close()
    assert [one.task_id for one in load_trajectories(path)] == ["a", "c"]


def test_parquet(tmp_path):
    datasets = pytest.importorskip("datasets", reason="needs the extra parquet")
    source, target = tmp_path / "t.jsonl", tmp_path / "t.parquet"
    one = trajectory("a", text="x\ud800y")
    one.turns[0].metadata["k"] = 1
    one.turns[1] = Turn((Message("tool", "4", "add", "c1"),), Completion("no ids"))
    one.metadata = {"seed": 3}
    with TrajectoryWriter(source) as writer:
        writer.write(one)
        writer.write(Trajectory("toy", "empty", tools=[{"type": "function"}]))
    assert export_parquet(source, target) == 2
    rows = datasets.Dataset.from_parquet(str(target), cache_dir=str(tmp_path / "cache"))
    assert rows["task_id"] == ["a", "empty"]
    assert rows[0]["turns"][0]["text"] == "x\ufffdy"
    assert rows[0]["turns"][0]["token_ids"] == [0, 1]
    assert rows[0]["turns"][1]["token_ids"] is None
    assert json.loads(rows[0]["metadata"]) == {"seed": 3}
    assert json.loads(rows[1]["tools"]) == [{"type": "function"}]


def test_an_empty_file_becomes_an_empty_table(tmp_path):
    pytest.importorskip("datasets", reason="needs the extra parquet")
    (tmp_path / "t.jsonl").write_bytes(b"")
    assert export_parquet(tmp_path / "t.jsonl", tmp_path / "t.parquet") == 0
    assert (tmp_path / "t.parquet").is_file()


def test_parquet_without_datasets_names_the_extra(tmp_path, monkeypatch):
    from agentgym_ttg.core import MissingDependencyError

    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingDependencyError, match=r"agentgym-ttg\[parquet\]"):
        export_parquet(tmp_path / "t.jsonl", tmp_path / "t.parquet")
