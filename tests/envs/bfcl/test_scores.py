import sys
import types

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentgym_ttg.core.messages import ToolCall
from agentgym_ttg.envs.bfcl.calls import call_string
from agentgym_ttg.envs.bfcl.env import BFCLEnv, _category
from agentgym_ttg.envs.bfcl.package import MULTI_TURN, SINGLE_TURN, load_package
from agentgym_ttg.envs.bfcl.scores import aggregate_scores, scores_by_category

LANGUAGES = {"java": "Java", "javascript": "JavaScript"}


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
    assert scores["live"] == pytest.approx((50 + 75 + 50) / 540, abs=1e-12)  # 16 + 24 tasks were not played
    assert scores["live_ast"] == pytest.approx(125 / 440, abs=1e-12)
    assert scores["multi_turn"] == pytest.approx(1.5 / 4, abs=1e-12)  # what was not played counts as 0
    assert scores["irrelevance"] == pytest.approx((0.7 + 1.0) / 2, abs=1e-12)
    assert scores["relevance"] == 0.0
    parts = (scores["non_live"], scores["live"], scores["multi_turn"])
    assert scores["overall"] == pytest.approx(sum(parts) / 3, abs=1e-12)


def test_nothing_played_scores_nothing():
    assert set(aggregate_scores({}).values()) == {0.0}
    assert scores_by_category([]) == {}


class Handler:
    """Reads the answers of this test's file, as upstream's handlers read a model's."""

    def decode_ast(self, result, language):
        return result

    def decode_execute(self, result):
        return [call_string(ToolCall(name, arguments)) for one in result for name, arguments in one.items()]


class AnyModel(dict):
    def __missing__(self, key):
        known = dict.fromkeys(("display_name", "url", "org", "license"), "x")
        return types.SimpleNamespace(**known, input_price=None, output_price=None, underscore_to_dot=False)


@pytest.fixture
def upstream(installed, monkeypatch, tmp_path):
    """The package's own runners and aggregation, without what they draw in; columns unrounded."""
    load_package()
    for name, content in (
        ("dotenv", {"load_dotenv": None}),
        ("tqdm", {"tqdm": None}),
        ("pandas", {}),
    ):
        module = types.ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    folder = str(load_package().data.parents[1])
    monkeypatch.syspath_prepend(folder)
    import bfcl_eval.eval_checker.eval_runner as runner
    import bfcl_eval.eval_checker.eval_runner_helper as helper

    monkeypatch.setattr(helper, "MODEL_CONFIG_MAPPING", AnyModel())
    tables = []
    monkeypatch.setattr(helper, "write_score_csv_file", lambda data, **_: tables.append(data[0]))

    def aggregate(accuracies):
        tables.clear()
        table = {"m": {name: {"accuracy": a, "total_count": n} for name, (a, n) in accuracies.items()}}
        helper.generate_leaderboard_csv(table, tmp_path)
        non_live, live, turns, combined = tables
        columns = {
            "overall": combined[1],
            "non_live": non_live[2],
            "live": live[2],
            "multi_turn": turns[2],
            "non_live_ast": non_live[3],
            "live_ast": live[3],
            "relevance": combined[-4],
            "irrelevance": combined[-3],
        }
        return {name: value for name, value in columns.items() if value != "N/A"}

    return types.SimpleNamespace(runner=runner, aggregate=aggregate, folder=tmp_path)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from([*SINGLE_TURN, *MULTI_TURN]), st.tuples(st.floats(0, 1), st.integers(1, 1200)), max_size=17
    )
)
def test_columns_are_those_of_the_packages_own_aggregation(upstream, accuracies):
    ours = aggregate_scores(accuracies)
    for name, value in upstream.aggregate(accuracies).items():
        assert ours[name] == pytest.approx(value, abs=1e-9), name


def answers_of(env, category, rng):
    """A fixed answer file: for each task the expert's calls, some of them spoilt, and what the environment says."""
    entries, _ = _category("v3", category)
    for task_id in env.tasks[:: 8 if category in MULTI_TURN else 2]:
        env.reset(options={"task_id": task_id})
        turns = [list(calls) for calls in env._solution()]
        fate = rng.random()
        if fate < 0.25:
            at = int(rng.integers(len(turns)))
            turns[at] = turns[at][1:]
        elif fate < 0.4:
            turns = [[ToolCall("ls", {"a": True}), *calls] for calls in turns]
        names = {one["name"].replace(".", "_"): one["name"] for one in entries[task_id].get("function", ())}
        for calls in turns:
            info = env.step("\n".join(call.to_hermes() for call in calls) or "Done.")[4]
            if category in MULTI_TURN and calls:
                info = env.step("Done.")[4]
        said = [[{names.get(call.name, call.name): call.arguments} for call in calls] for calls in turns]
        yield task_id, said, info["success"]


def test_a_fixed_answer_file_scores_as_the_package_scores_it(upstream, make):
    """Run upstream's own runners over the file, category by category, and its aggregation over what they find."""
    rng = np.random.default_rng(0)
    episodes, found = [], {}
    for category in (*SINGLE_TURN, *MULTI_TURN):
        entries, truth = _category("v3", category)
        file = list(answers_of(make(category), category, rng))
        episodes += [(category, success, {}) for _, _, success in file]
        prompts = [dict(entries[task_id]) for task_id, _, _ in file]
        rest = (category, upstream.folder)
        if category in MULTI_TURN:
            results = [{"id": i, "result": [[calls] if calls else [] for calls in said]} for i, said, _ in file]
            possible = [{"ground_truth": truth[task_id]} for task_id, _, _ in file]
            runner = upstream.runner.multi_turn_runner
            found[category] = runner(Handler(), results, prompts, possible, f"test-{category}", *rest)
        elif "relevance" in category:
            results = [{"id": task_id, "result": said[0]} for task_id, said, _ in file]
            found[category] = upstream.runner.relevance_file_runner(Handler(), results, prompts, "test", *rest)
        else:
            results = [{"id": task_id, "result": said[0]} for task_id, said, _ in file]
            possible = [{"ground_truth": truth[task_id]} for task_id, _, _ in file]
            language = LANGUAGES.get(category, "Python")
            runner = upstream.runner.ast_file_runner
            found[category] = runner(Handler(), results, prompts, possible, language, category, "test", rest[1])
    ours = scores_by_category((category, success) for category, success, _ in episodes)
    assert ours == {name: (pytest.approx(a, abs=1e-9), n) for name, (a, n) in found.items()}
    assert all(0 < a < 1 for name, (a, _) in ours.items() if name not in ("live_relevance",))
    columns = BFCLEnv.summarize(episodes)
    for name, value in upstream.aggregate(found).items():
        assert columns[name] == pytest.approx(value, abs=1e-9), name
