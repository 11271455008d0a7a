import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_envs import COUNTING

from agentgym_ttg.agents.config import PRESETS
from agentgym_ttg.benchmarks.config import differences, flat, run_config
from agentgym_ttg.benchmarks.run import parse
from agentgym_ttg.benchmarks.setup import resolve
from agentgym_ttg.core import ConfigError

TOY = f"toy_envs:{COUNTING}"


def test_flags_override_the_file_which_overrides_the_preset(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("method: grpo\npreset: smoke\nupdates: 7\nepisodes: 9\nenv_kwargs: {difficulty: hard}\n")
    config = parse(["--config", str(file), "--episodes", "4", "--env-kwargs", "difficulty=easy", "n=3"])
    assert config.method == "grpo"
    assert config.train.updates == 7  # the file's, not the preset's
    assert config.train.group_size == PRESETS["smoke"]["group_size"]
    assert config.episodes == 4
    assert config.env_kwargs == {"difficulty": "easy", "n": 3}
    assert parse([f"--config={file}", "--preset", "paper"]).train.dtype == "bfloat16"


def test_methods_that_train_take_the_cpu_preset_unless_told_otherwise(tmp_path):
    assert parse(["--method", "deltattg"]).preset == "cpu"
    assert parse(["--method", "deltattg"]).max_response_tokens == PRESETS["cpu"]["max_response_tokens"]
    assert parse(["--method", "deltattg", "--preset", "smoke"]).preset == "smoke"
    assert parse(["--method", "expert"]).preset is None
    file = tmp_path / "run.yaml"
    file.write_text("method: deltattg")
    assert parse(["--config", str(file)]).preset == "cpu"


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_a_config(preset):
    config = parse(["--method", "deltattg", "--preset", preset])
    for name, value in PRESETS[preset].items():
        assert getattr(config, name, None) == value or getattr(config.train, name) == value


def test_a_run_folders_config_is_a_config_file(tmp_path):
    config = resolve(parse(["--method", "deltattg", "--preset", "smoke", "--rho", "0.5", "--env-kwargs", "x=[1, 2]"]))
    (tmp_path / "config.json").write_text(json.dumps(flat(config)))
    again = resolve(parse(["--config", str(tmp_path / "config.json")]))
    assert differences(flat(config), flat(again)) == []
    assert again == config.model_copy(update={"config": str(tmp_path / "config.json")})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("metod: expert", "'method'"),
        ("update: 3", "'updates'"),
        ("episodes: many", "episodes"),
        ("rho: 3", "rho"),
        ("- a\n- b", "mapping"),
        ("a: [", "not YAML"),
    ],
)
def test_a_config_file_that_cannot_be(tmp_path, text, told):
    file = tmp_path / "run.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=told) as caught:
        parse(["--config", str(file)])
    assert str(file) in str(caught.value)


def test_a_config_file_that_is_not_there():
    with pytest.raises(ConfigError, match="cannot read the config file nowhere"):
        parse(["--config", "nowhere.yaml"])


def test_an_empty_config_file_changes_nothing(tmp_path):
    (tmp_path / "empty.yaml").write_text("")
    assert flat(parse(["--config", str(tmp_path / "empty.yaml")])) == flat(parse([]))


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "seed": st.integers(0, 10**9),
            "episodes": st.none() | st.integers(1, 10**6),
            "temperature": st.floats(0, 5),
            "rho": st.floats(0, 1),
            "recorders": st.lists(st.text(max_size=8), max_size=3),
            "env_kwargs": st.dictionaries(st.text(min_size=1), st.integers() | st.booleans() | st.text()),
            "data_dir": st.none() | st.text(),
        },
    )
)
def test_settings_survive_json(values):
    config = run_config(values)
    again = run_config(json.loads(json.dumps(flat(config))))
    assert again == config
    assert differences(flat(config), flat(again)) == []


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--env", "alfworld"], {"env": "agentgym_ttg/ALFWorld-v0", "split": "valid_seen", "template": "none"}),
        (["--env", "alfworld", "--method", "react"], {"action_format": "tags", "template": "agentgym_ttg/ALFWorld-v0"}),
        (["--env", "alfworld", "--method", "react", "--template", "none"], {"template": "none"}),
        (["--env", "alfworld", "--method", "deltattg"], {"split": "train", "eval_split": "valid_seen"}),
        (["--env", "alfworld", "--method", "grpo", "--prompt", "windowed"], {"template": "agentgym_ttg/ALFWorld-v0"}),
        (["--env", TOY], {"env": TOY, "split": "test", "eval_split": "test"}),
    ],
)
def test_defaults_that_depend_on_method_and_environment(flags, expected):
    config = resolve(parse(flags))
    assert {name: getattr(config, name) for name in expected} == expected
    assert resolve(config) == config
