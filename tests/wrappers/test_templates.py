import pytest

from agentgym_ttg.core import ConfigError
from agentgym_ttg.envs import ENVIRONMENTS
from agentgym_ttg.wrappers import PromptTemplate, load_template, shipped_templates

ALFWORLD_TEXT = (
    "-= Welcome to TextWorld, ALFRED! =-\n\n"
    "You are in the middle of a room. Looking quickly around you, you see a bed 1.\n\n"
    "Your task is to: put a hot mug in cabinet."
)


@pytest.mark.parametrize("name", shipped_templates())
def test_shipped_templates_load(name):
    template = load_template(name)
    assert "{observation}" in template.first
    assert "{observation}" in template.turn
    assert "{history}" in template.turn


def test_every_environment_has_one():
    for env_id in ENVIRONMENTS:
        assert isinstance(load_template(env_id), PromptTemplate)
    assert load_template("agentgym_ttg/ALFWorld-v0") == load_template("alfworld") != load_template("default")
    assert load_template("somebody/Else-v3") == load_template("default")


def test_the_alfworld_template_asks_for_reason_then_action_and_finds_the_task():
    template = load_template("alfworld")
    assert template.task_of(ALFWORLD_TEXT) == "put a hot mug in cabinet."
    for text in (template.first, template.turn):
        assert text.index("<think>") < text.index("<action>")
        assert "{admissible_actions}" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("first: 'Go {obervation}'", r"first: unknown placeholder \{obervation\}.*did you mean \{observation\}"),
        ("first: '{observation.__class__}'", "unknown placeholder"),
        ("first: '{observation[0]}'", "unknown placeholder"),
        ("first: '{}'", "unknown placeholder"),
        ("turn: '{observation!r}'", "no format or conversion"),
        ("turn: '{step:03d}'", "no format or conversion"),
        ("reply: '{history}'", r"reply: unknown placeholder \{history\}"),
        ("history_item: '{task}'", "history_item"),
        ("turn: '{'", "turn: "),
        ("fist: 'x'", "fist: unknown field; expected one of system, first"),
        ("first: 3", "first"),
        ("task_pattern: '('", "not a regular expression"),
        ("task_pattern: 'task'", "with a group"),
        ("- a list", "expected a mapping of fields, got list"),
        ("", "expected a mapping"),
        ("first: [", "is not YAML"),
    ],
)
def test_a_bad_file_says_what_is_wrong(tmp_path, content, message):
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        load_template(str(path))
    assert "mine.yaml" in str(caught.value)


def test_a_file_that_is_not_there():
    with pytest.raises(ConfigError, match=r"cannot read the prompt template no/such\.yaml"):
        load_template("no/such.yaml")
    with pytest.raises(ConfigError, match=r"unknown prompt template 'alfwrld'; expected a \.yaml file.*alfworld"):
        load_template("alfwrld")


def test_braces_can_be_written():
    assert PromptTemplate(first="{{}} {observation}").first.format(observation="x") == "{} x"
