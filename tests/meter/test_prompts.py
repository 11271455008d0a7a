import pytest

from agentgym_ttg.core import Completion, ConfigError, Message, Trajectory, Turn
from agentgym_ttg.meter.prompts import make_encoder

transformers = pytest.importorskip("transformers", reason="encoding histories needs transformers")


@pytest.fixture(scope="module", params=["chat", "transcript"])
def encoder(request, tiny_lm):
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_lm)

    def make(context_length=4096):
        return make_encoder(tokenizer, request.param, context_length)

    make.tokenizer = tokenizer
    return make


def prefix(trajectory, t):
    """The trajectory as it was when decision t was due."""
    turns = [*trajectory.turns[:t], Turn(trajectory.turns[t].messages, Completion(""))]
    return Trajectory(trajectory.env_id, trajectory.task_id, trajectory.policy, turns)


def test_every_history_is_a_prefix_of_the_whole(encoder, corridor):
    for trajectory in corridor(6):
        whole = encoder().encode(trajectory)
        assert len(whole.boundaries) == len(trajectory)
        for t, end in enumerate(whole.boundaries):
            assert encoder().encode(prefix(trajectory, t)).ids == whole.ids[:end]


def test_a_history_holds_what_was_seen_and_said_before_the_decision_and_no_more(encoder, corridor):
    trajectory = next(t for t in corridor(10) if len(t) >= 4)
    trajectory.turns[2].completion = Completion("walk sideways")
    trajectory.turns[3].messages = (Message("user", "The floor is wet."),)
    make = encoder()
    whole = make.encode(trajectory)
    texts = [encoder.tokenizer.decode(whole.ids[:end]) for end in whole.boundaries]
    assert "Your task is to" in texts[0]
    assert "walk sideways" not in texts[2]
    assert "walk sideways" in texts[3]
    assert "The floor is wet." not in texts[2]
    assert "The floor is wet." in texts[3]


def long_trajectory(steps=40, words=2):
    turns = [
        Turn(
            (Message("user", ("TASK: find the key. " if t == 0 else "") + f"observation {t} " * words),),
            Completion(f"act {t}"),
            tokens=3,
        )
        for t in range(steps)
    ]
    return Trajectory("toy", "long", "p", turns, "success")


def test_windows_keep_the_task_the_end_and_the_limit(encoder):
    make = encoder(400)
    trajectory = long_trajectory()
    encoded = make.encode(trajectory)
    windows = make.windows(encoded)
    assert len(windows) > 1
    assert [step for window in windows for step in window.steps] == list(range(40))
    for window in windows:
        assert len(window.ids) <= 400
        assert window.ids[: encoded.task_end] == encoded.ids[: encoded.task_end]
        for step, position in zip(window.steps, window.positions, strict=True):
            read = encoder.tokenizer.decode(window.ids[:position])
            assert "TASK: find the key." in read
            assert f"observation {step} " in read
            assert f"act {step}" not in read
    # fewer passes than decisions: a window serves many
    assert len(windows) <= 20


def test_truncated_windows_depend_on_the_history_alone(encoder):
    make = encoder(400)
    trajectory = long_trajectory()
    whole = {
        step: window.ids[:position]
        for window in make.windows(make.encode(trajectory))
        for step, position in zip(window.steps, window.positions, strict=True)
    }
    for t in (0, 5, 11, 12, 25, 39):
        last = make.windows(make.encode(prefix(trajectory, t)))[-1]
        assert last.ids[: last.positions[-1]] == whole[t]


def test_an_observation_longer_than_the_context_keeps_its_end(encoder):
    make = encoder(200)
    trajectory = long_trajectory(steps=3, words=1)
    trajectory.turns[1].messages = (Message("user", "blah " * 500 + "THE END"),)
    windows = make.windows(make.encode(trajectory))
    assert all(len(window.ids) <= 200 for window in windows)
    read = {s: w.ids[:p] for w in windows for s, p in zip(w.steps, w.positions, strict=True)}
    text = encoder.tokenizer.decode(read[1])
    assert "TASK: find the key." in text
    assert "THE END" in text


def test_a_task_longer_than_the_context_keeps_its_beginning_and_end(encoder):
    make = encoder(200)
    trajectory = long_trajectory(steps=3, words=1)
    trajectory.turns[0].messages = (Message("user", "BEGIN " + "blah " * 900 + "the task: WIN"),)
    for window in make.windows(make.encode(trajectory)):
        text = encoder.tokenizer.decode(window.ids)
        assert len(window.ids) <= 200
        assert "BEGIN" in text
        assert "the task: WIN" in text


def test_surrogates_empty_messages_and_tools_are_encoded(encoder):
    turns = [
        Turn((Message("user", "a\ud800b\x00"),), Completion("")),
        Turn((), Completion("x")),
        Turn((Message("tool", "result", name="f"), Message("tool", "more", name="g")), Completion("y")),
    ]
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    encoded = encoder().encode(Trajectory("toy", "t", "p", turns, tools=tools))
    assert encoded.boundaries == sorted(encoded.boundaries)
    assert len(encoded.boundaries) == 3
    assert "result" in encoder.tokenizer.decode(encoded.ids)


def test_what_cannot_work_is_refused(encoder):
    with pytest.raises(ConfigError, match="at least 32"):
        encoder(10)
    with pytest.raises(ConfigError, match="unknown style"):
        make_encoder(encoder.tokenizer, "poem", 100)
