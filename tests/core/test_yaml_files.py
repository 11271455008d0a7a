"""Settings files: what is refused, and how."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym_ttg.core.errors import ConfigError
from agentgym_ttg.core.yaml_files import parse_mapping, read_mapping


@pytest.mark.parametrize(
    ("text", "expected"), [("", {}), ("# nothing\n", {}), ("a: 1\nb: {c: [1, 2]}\n", {"a": 1, "b": {"c": [1, 2]}})]
)
def test_mappings_are_read(text: str, expected: dict[str, object]) -> None:
    assert parse_mapping(text, "the file") == expected


def test_merge_keys_and_anchors_still_work() -> None:
    assert parse_mapping("base: &b {x: 1, y: 2}\nmore: {<<: *b, y: 3}\n", "it")["more"] == {"x": 1, "y": 3}


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "a: {b: 1, b: 1}\n", "- {a: 1}\n- {a: 1, a: 2}\n", '"a": 1\na: 2\n'])
def test_a_key_that_stands_twice_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(ConfigError, match=r"the file.*stands twice.*line \d"):
        parse_mapping(text, "the file")


@pytest.mark.parametrize("text", ["[1, 2]", "word", "3"])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a mapping"):
        parse_mapping(text, "the file")


@pytest.mark.parametrize("text", ["a: [1", "a: b: c", "\tx: 1", "a: !!python/object:os.system {}"])
def test_what_is_not_yaml_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not YAML"):
        parse_mapping(text, "the file")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the config file .*nothing\.yaml"):
        read_mapping(tmp_path / "nothing.yaml", "the config file")
    (tmp_path / "wide.yaml").write_bytes("a: 1".encode("utf-16"))
    with pytest.raises(ConfigError, match=r"cannot read the config file .*wide\.yaml"):
        read_mapping(tmp_path / "wide.yaml", "the config file")
