import pytest

from agentgym_ttg.envs.bfcl.scores import aggregate_scores, scores_by_category


def test_the_columns_are_the_leaderboards():
    names = ["simple", "java", "javascript", "multiple", "parallel", "parallel_multiple", "irrelevance"]
    results = {name: (value / 10, 10) for value, name in enumerate(names, 1)}
    results |= {
        "live_simple": (0.5, 100),
        "live_multiple": (0.25, 300),
        "live_irrelevance": (1.0, 50),
        "live_relevance": (0.0, 50),
    }
    results |= {f"multi_turn_{kind}": (0.5, 200) for kind in ("base", "miss_func", "miss_param")}
    scores = aggregate_scores(results)
    assert scores["non_live"] == pytest.approx((0.2 + 0.4 + 0.5 + 0.6 + 0.7) / 5, abs=1e-12)
    assert scores["non_live_ast"] == pytest.approx((0.2 + 0.4 + 0.5 + 0.6) / 4, abs=1e-12)
    assert scores["live"] == pytest.approx((50 + 75 + 50) / 500, abs=1e-12)
    assert scores["live_ast"] == pytest.approx(125 / 400, abs=1e-12)
    assert scores["multi_turn"] == pytest.approx(1.5 / 4, abs=1e-12)  # what was not played counts as 0
    assert scores["irrelevance"] == pytest.approx((0.7 + 1.0) / 2, abs=1e-12)
    assert scores["relevance"] == 0.0
    parts = (scores["non_live"], scores["live"], scores["multi_turn"])
    assert scores["overall"] == pytest.approx(sum(parts) / 3, abs=1e-12)


def test_nothing_played_scores_nothing():
    assert set(aggregate_scores({}).values()) == {0.0}
    assert scores_by_category([]) == {}
