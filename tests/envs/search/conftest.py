import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """Indexes of a test go to its own folder, never to the user's cache."""
    monkeypatch.setenv("AGENTGYM_TTG_CACHE", str(tmp_path_factory.mktemp("cache")))
