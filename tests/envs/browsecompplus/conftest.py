import pytest


@pytest.fixture(autouse=True, scope="session")
def _browsecompplus_cache(tmp_path_factory):
    """Indexes of the tests go to one folder of their own, never to the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_TTG_CACHE", str(tmp_path_factory.mktemp("search-cache")))
        yield
