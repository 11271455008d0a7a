"""What counts as the right answer."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym_ttg.envs.papersearchqa.answers import exact_match, normalise

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "golden.json").read_text(encoding="utf-8"))["em"]


@pytest.mark.parametrize("case", GOLDEN, ids=[case["pred"] or "empty" for case in GOLDEN])
def test_the_golden_cases(case):
    assert normalise(case["pred"]) == case["normalised"] or "normalised" not in case
    assert exact_match(case["pred"], case["gold"]) == bool(case["em"])


@pytest.mark.parametrize(
    ("answer", "golden", "right"),
    [
        ("Theatre", ["the atre"], False),
        ("Theatre", ["theatre"], True),
        ("Banana", ["banana"], True),
        ("Banana", ["banan"], False),
        ("an antigen", ["antigen"], True),
        ("the  A-band", ["Aband"], True),
        ("not aspirin", ["aspirin"], False),
        ("aspirin or ibuprofen", ["aspirin"], False),
        ("paracetamol", ["acetaminophen", "paracetamol"], True),
        ("ASPIRIN!", ["aspirin"], True),
        ("aspirin", [], False),
    ],
)
def test_kinds_of_answers(answer, golden, right):
    assert exact_match(answer, golden) == right


@given(st.text())
def test_normalising_twice_changes_nothing_more_than_articles(text):
    once = normalise(text)
    assert once == " ".join(once.split())
    assert not set(once.split()) & {"a", "an", "the"}
    assert exact_match(text, [text])
