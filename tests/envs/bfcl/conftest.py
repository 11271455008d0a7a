import pytest

pytest.importorskip("mpmath", reason="the extra bfcl is not installed")

from agentgym_ttg.data.bfcl_install import bfcl_folder


@pytest.fixture(scope="session")
def installed():
    if not (bfcl_folder() / "bfcl_eval").is_dir():
        pytest.skip("BFCL is not installed (agentgym-ttg data install bfcl)")


@pytest.fixture(scope="session")
def make(installed):
    """Make an environment of some categories, with the expert's action in ``info``."""
    from agentgym_ttg.envs.bfcl.env import BFCLEnv

    made = []

    def build(*categories, **kwargs):
        made.append(BFCLEnv(expert=True, categories=categories or None, **kwargs))
        return made[-1]

    yield build
    for env in made:
        env.close()
