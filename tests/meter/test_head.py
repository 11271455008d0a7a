import json
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from agentgym_ttg.core import Completion, ConfigError, DataError, Trajectory, Turn
from agentgym_ttg.meter import Estimate, MeterConfig, ProgressMeter, load_meter, train_meter

torch = pytest.importorskip("torch", reason="head meters need torch")
pytest.importorskip("transformers", reason="head meters need transformers")

from agentgym_ttg.meter.generative import GenerativeMeter  # noqa: E402
from agentgym_ttg.meter.head import HeadMeter, HeadNetwork, HeadSettings  # noqa: E402
from agentgym_ttg.models import load_causal_lm  # noqa: E402


def config(tiny_lm, **changes):
    return MeterConfig(
        **{"backbone": str(tiny_lm), "epochs": 2, "learning_rate": 3e-3, "device": "cpu", "threads": 1, **changes}
    )


@pytest.fixture(scope="module")
def trained(tiny_lm, corridor, tmp_path_factory):
    folder = tmp_path_factory.mktemp("meters") / "head"
    report = train_meter(corridor(90), config(tiny_lm, epochs=6, batch_trajectories=8), folder)
    return folder, report


def untrained(tiny_lm, **settings):
    """A meter whose heads are random instead of zero, so that every estimate differs."""
    loaded = load_causal_lm(str(tiny_lm), device="cpu")
    network = HeadNetwork(loaded.model.base_model, loaded.model.config.hidden_size)
    torch.manual_seed(1)
    for head in (network.value_head, network.completion_head):
        torch.nn.init.normal_(head.weight)
    return HeadMeter(network, loaded.tokenizer, HeadSettings(value_mean=3.0, **settings), device="cpu")


def histories(trajectory):
    """Each history on its own: the turns so far, and the one whose action is due."""
    return [
        Trajectory("toy", "t", "p", [*trajectory.turns[:t], Turn(trajectory.turns[t].messages, Completion(""))])
        for t in range(len(trajectory))
    ]


@pytest.mark.parametrize("style", ["chat", "transcript"])
@pytest.mark.parametrize("context_length", [4096, 160])
def test_one_pass_equals_prefix_by_prefix(tiny_lm, corridor, style, context_length):
    meter = untrained(tiny_lm, style=style, context_length=context_length)
    trajectories = corridor(4)
    at_once = meter.read(trajectories)
    for i, trajectory in enumerate(trajectories):
        values, logits = ([row[-1] for row in rows] for rows in meter.read(histories(trajectory)))
        np.testing.assert_allclose(at_once[0][i], values, rtol=1e-5)
        np.testing.assert_allclose(at_once[1][i], logits, atol=1e-5)


def test_batching_and_order_change_nothing(tiny_lm, corridor):
    meter = untrained(tiny_lm)
    trajectories = corridor(5)
    expected = meter.read(trajectories)
    meter.batch_tokens = 300
    np.testing.assert_allclose(np.concatenate(meter.read(trajectories)[1]), np.concatenate(expected[1]), atol=1e-5)
    turned = meter.read(trajectories[::-1])
    np.testing.assert_allclose(turned[0][0], expected[0][-1], rtol=1e-5)


def test_score_speaks_the_protocol(trained, corridor):
    meter = load_meter(trained[0], device="cpu")
    assert isinstance(meter, ProgressMeter)
    trajectories = corridor(4, seed=9)
    empty = Trajectory("toy", "t", "p", [])
    scored = meter.score([*trajectories, empty])
    assert [len(row) for row in scored] == [*map(len, trajectories), 0]
    for estimate in (e for row in scored for e in row):
        assert estimate.valid
        assert estimate.completion_logit is not None
        assert (estimate.remaining_tokens is None) == (not estimate.can_complete)
        assert estimate.remaining_tokens is None or estimate.remaining_tokens >= 0
    assert meter.tokens_scored > 0
    assert meter.score([]) == []


def test_numbers_that_are_not_finite_are_invalid_outputs(tiny_lm, corridor):
    meter = untrained(tiny_lm)
    with torch.no_grad():
        meter.network.value_head.bias.fill_(float("nan"))
    assert all(e == Estimate.invalid() for row in meter.score(corridor(1)) for e in row)


def test_the_threshold_decides_what_can_be_completed(trained, corridor):
    trajectories = corridor(6, seed=3)
    shares = []
    for threshold in (0.05, 0.5, 0.95):
        estimates = [e for row in load_meter(trained[0], threshold=threshold).score(trajectories) for e in row]
        bound = np.log(threshold / (1 - threshold))
        assert all(e.can_complete == (e.completion_logit >= bound) for e in estimates)
        shares.append(np.mean([e.can_complete for e in estimates]))
    assert shares[0] > shares[2]


def test_training_learns_what_the_references_cannot_know(trained):
    evaluation = trained[1].test
    assert evaluation.beats_references
    assert evaluation.meter.completion_auroc > evaluation.steps.completion_auroc
    assert evaluation.meter.token_accuracy > max(evaluation.constant.token_accuracy, evaluation.steps.token_accuracy)
    assert evaluation.meter.rank_correlation_across > 0.2
    assert evaluation.steps.rank_correlation_across == 0
    assert evaluation.meter.invalid == 0
    assert set(evaluation.by_policy) == {"good", "noisy", "lost"}


def test_saved_and_loaded_meters_agree(trained, tmp_path, corridor):
    meter = load_meter(trained[0], device="cpu")
    meter.save(tmp_path / "again")
    other = load_meter(tmp_path / "again", device="cpu")
    trajectories = corridor(3, seed=5)
    assert other.score(trajectories) == meter.score(trajectories)
    assert other.settings == meter.settings
    # the backbone is an ordinary Hugging Face model
    import transformers

    assert transformers.AutoModel.from_pretrained(trained[0]).config.hidden_size == 48


def test_the_same_seed_gives_the_same_meter_and_another_seed_another(tiny_lm, corridor, tmp_path):
    recordings = corridor(12)
    weights = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train_meter(recordings, config(tiny_lm, seed=seed), tmp_path / name)
        weights.append((tmp_path / name / "heads.safetensors").read_bytes())
    assert weights[0] == weights[1] != weights[2]


def test_a_training_that_was_killed_goes_on_and_comes_out_the_same(tiny_lm, corridor, tmp_path):
    recordings = corridor(12)
    settings = config(tiny_lm, epochs=3)
    train_meter(recordings, settings, tmp_path / "whole")
    seen = []

    def die(stage, done, total, metrics):
        seen.append((stage, done))
        if metrics.get("epoch") == 2 and "loss" not in metrics:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_meter(recordings, settings, tmp_path / "part", die)
    assert not (tmp_path / "part").exists()
    first = len(seen)
    train_meter(recordings, settings, tmp_path / "part", lambda *args: seen.append(args[:2]))
    assert min(done for stage, done in seen[first:] if stage == "head") > 1  # the first epoch was not done again
    for name in ("model.safetensors", "heads.safetensors"):
        assert (tmp_path / "part" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["part", "whole"]  # nothing is left beside the meters


def test_other_recordings_do_not_continue_a_training(tiny_lm, corridor, tmp_path):
    def die(stage, done, total, metrics):
        if "loss" in metrics:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_meter(corridor(12), config(tiny_lm), tmp_path / "a", die)
    epochs = train_meter(corridor(12, seed=1), config(tiny_lm), tmp_path / "a").epochs
    train_meter(corridor(12, seed=1), config(tiny_lm), tmp_path / "b")
    assert [epoch["epoch"] for epoch in epochs] == [1, 2]
    assert (tmp_path / "a/model.safetensors").read_bytes() == (tmp_path / "b/model.safetensors").read_bytes()


def test_a_failed_save_leaves_the_old_meter(trained, tmp_path, corridor, monkeypatch):
    meter = load_meter(trained[0], device="cpu")
    meter.save(tmp_path / "meter")
    before = meter.score(corridor(2))

    def broken(*args, **kwargs):
        raise OSError("disk full")

    with torch.no_grad():
        meter.network.value_head.bias.add_(1.0)
    monkeypatch.setattr("agentgym_ttg.meter.head.save_file", broken)
    with pytest.raises(OSError, match="disk full"):
        meter.save(tmp_path / "meter")
    assert load_meter(tmp_path / "meter", device="cpu").score(corridor(2)) == before
    assert os.listdir(tmp_path) == ["meter"]


KILLED = """
import os, signal, sys
from pathlib import Path
from agentgym_ttg.meter import files
moment, target = sys.argv[1], Path(sys.argv[2])
if moment == "writing":
    pass
elif moment == "between":
    real = os.rename
    def rename(a, b):
        real(a, b)
        if ".old" in str(b):
            os.kill(os.getpid(), signal.SIGKILL)
    os.rename = rename
with files.replace_folder(target) as fresh:
    (fresh / "meter.json").write_text("new")
    if moment == "writing":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("moment", ["writing", "between"])
def test_a_kill_during_a_save_leaves_the_old_meter(tmp_path, moment):
    from agentgym_ttg.meter.files import find_meter, replace_folder

    target = tmp_path / "meter"
    with replace_folder(target) as fresh:
        (fresh / "meter.json").write_text("old")
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), moment, str(target)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (find_meter(target) / "meter.json").read_text() == "old"
    with replace_folder(target) as fresh:
        (fresh / "meter.json").write_text("newer")
    assert (find_meter(target) / "meter.json").read_text() == "newer"
    assert os.listdir(tmp_path) == ["meter"]  # what the killed save left is gone


@pytest.mark.parametrize("target", ["steps", "outcome", "normalized"])
def test_other_targets_are_trained_and_read(tiny_lm, corridor, tmp_path, target):
    report = train_meter(corridor(15), config(tiny_lm, epochs=1, target=target), tmp_path / "m")
    meter = load_meter(tmp_path / "m", device="cpu")
    assert meter.target == target
    estimates = [e for row in meter.score(corridor(3)) for e in row]
    if target == "outcome":
        assert all(e.score is not None and e.remaining_tokens is None for e in estimates)
        assert report.test.meter.answered == 1
    else:
        assert all(e.score is None for e in estimates)


def test_recordings_without_a_success_are_refused(tiny_lm, corridor, tmp_path):
    failures = [t for t in corridor(20) if not t.success]
    with pytest.raises(DataError, match="without any"):
        train_meter(failures, config(tiny_lm), tmp_path / "m")


def test_recordings_without_a_failure_are_enough(tiny_lm, corridor, tmp_path):
    solved = [t for t in corridor(20) if t.success]
    report = train_meter(solved, config(tiny_lm, epochs=1), tmp_path / "m")
    assert report.test.meter.completion_auroc is None
    assert report.test.meter.completion_accuracy == 1


def test_loading_says_what_is_wrong(tmp_path, trained):
    with pytest.raises(ConfigError, match="is no folder"):
        load_meter(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"expected a meter\.json"):
        load_meter(tmp_path / "empty")
    for text, message in (
        ("{", "no meter description"),
        (json.dumps({"format": 99, "kind": "head", "settings": {}}), "newer than this version"),
        (json.dumps({"format": 1, "kind": "crystal ball", "settings": {}}), "unknown kind"),
        (json.dumps({"format": 1, "kind": "head", "settings": {"value_std": -1}}), r"settings\.value_std"),
    ):
        (tmp_path / "empty" / "meter.json").write_text(text)
        with pytest.raises(ConfigError, match=message):
            load_meter(tmp_path / "empty")
    with pytest.raises(ConfigError, match="expected 'generative'"):
        GenerativeMeter.load(trained[0])


def test_a_meter_of_fewer_layers_is_saved_and_loaded(tiny_lm, corridor, tmp_path):
    settings = config(tiny_lm, epochs=1, layers=1)
    train_meter(corridor(12), settings, tmp_path / "m")
    meter = load_meter(tmp_path / "m", device="cpu")
    assert len(meter.network.backbone.layers) == 1
    trajectories = corridor(2)
    assert load_meter(tmp_path / "m", device="cpu").score(trajectories) == meter.score(trajectories)
    with pytest.raises(ConfigError, match="at most 2 layers"):
        train_meter(corridor(12), config(tiny_lm, layers=3), tmp_path / "n")


def test_what_is_left_open_follows_the_size_of_the_model():
    tiny, large = MeterConfig().filled(1_000_000, 4), MeterConfig().filled(4_000_000_000, 36)
    assert (tiny.layers, large.layers) == (2, 36)
    assert (tiny.context_length, large.context_length) == (512, 8192)
    assert large.sft.learning_rate == 1e-5  # the paper's
    assert large.refine.learning_rate == 3e-6
    assert large.head_learning_rate == pytest.approx(10 * large.learning_rate)
    assert MeterConfig(learning_rate=2e-4, layers=3).filled(1_000_000, 4).learning_rate == 2e-4
