import numpy as np
import pytest

from agentgym_ttg.agents.config import TrainConfig
from agentgym_ttg.agents.methods import METHODS, Method, MethodRegistry, PolicySettings, get_method
from agentgym_ttg.core import Completion, ConfigError, Message, TagFormat, Trajectory, TrajectoryGroup, Turn
from agentgym_ttg.meter import Estimate


def played(steps, success):
    turns = [Turn((Message("user", "?"),), Completion("x"), tokens=3) for _ in range(steps)]
    outcome = "success" if success else "failure"
    return Trajectory("e", "t", turns=turns, outcome=outcome, total_reward=float(success))


class FallingMeter:
    name, tokens_scored = "falling", 0

    def score(self, trajectories):
        return [[Estimate(True, 10.0 * 2.0**-t) for t in range(len(row))] for row in trajectories]


def test_every_method_has_what_its_kind_promises():
    assert {"random", "expert", "noisy-expert", "react", "grpo", "deltattg"} <= set(METHODS)
    for method in METHODS.values():
        assert method.summary
        assert method.source
        if method.kind == "train":
            meter = FallingMeter() if method.needs_meter else None
            assert callable(method.make_estimator(TrainConfig.model_validate({}), meter, 100.0))


def test_deltattg_is_grpo_where_nothing_is_moved_and_not_elsewhere():
    group = TrajectoryGroup("t", [played(4, True), played(3, False)])

    def advantages(name, **settings):
        config = TrainConfig.model_validate(settings)
        return get_method(name).make_estimator(config, FallingMeter(), 100.0)(group)

    grpo, moved = advantages("grpo"), advantages("deltattg")
    for same in (advantages("deltattg", rho=1.0), advantages("deltattg", cap=1.0)):
        for a, b in zip(same, grpo, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)
    assert not np.allclose(moved[0], grpo[0])
    assert moved[0].sum() == pytest.approx(grpo[0].sum())


def test_a_policy_speaks_the_environments_form():
    from agentgym_ttg.agents.policies.base import GenerationRequest

    info = {"admissible_actions": ["look"]}
    policy = get_method("random").make_policy(PolicySettings(format=TagFormat()))
    said = policy.generate([GenerationRequest("e", [], info, np.random.default_rng(0))])[0]
    assert TagFormat().parse(said).command == "look"


def test_what_a_method_cannot_do_is_told():
    with pytest.raises(ConfigError, match="did you mean 'expert'"):
        get_method("exper")
    with pytest.raises(ConfigError, match="no policy"):
        get_method("grpo").make_policy(PolicySettings())
    with pytest.raises(ConfigError, match="does not train"):
        get_method("expert").make_estimator(TrainConfig.model_validate({}), None, 1.0)
    with pytest.raises(ConfigError, match="needs a progress meter"):
        get_method("deltattg").make_estimator(TrainConfig.model_validate({}), None, 1.0)
    with pytest.raises(ConfigError, match="--base-url"):
        get_method("react").make_policy(PolicySettings())
    with pytest.raises(ConfigError, match="needs a policy"):
        Method("mine", "?", "?", "evaluate")
    with pytest.raises(ConfigError, match="already"):
        METHODS.register(Method("expert", "?", "?", "evaluate", policy=lambda settings: None))


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package with entry points, as pip would."""

    def install(code, **points):
        (tmp_path / "thirdparty_methods.py").write_text(code)
        folder = tmp_path / "thirdparty_methods-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: thirdparty-methods\nVersion: 1.0\n")
        lines = "".join(f"{name} = thirdparty_methods:{value}\n" for name, value in points.items())
        (folder / "entry_points.txt").write_text(f"[agentgym_ttg.methods]\n{lines}")
        monkeypatch.syspath_prepend(str(tmp_path))

    return install


def test_another_package_adds_a_method(installed):
    installed(
        "from agentgym_ttg.agents.methods import Method\n"
        "MINE = Method('mine', 'does it', 'me', 'evaluate', policy=lambda settings: 'a policy')\n"
        "OTHER = 7\n",
        mine="MINE",
        broken="NOTHING",
        other="OTHER",
    )
    registry = MethodRegistry(())
    assert sorted(registry) == ["broken", "mine", "other"]
    assert get_method("mine").make_policy(PolicySettings()) == "a policy"
    with pytest.raises(ConfigError, match="cannot be imported"):
        get_method("broken")
    with pytest.raises(ConfigError, match="to be a Method, got int"):
        get_method("other")
