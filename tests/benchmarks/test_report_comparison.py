"""The report of several runs: what it says follows from the numbers, and the page needs nothing else."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys

import pytest
from html_page import Page
from run_folders import ALFWORLD, SEARCH, write_comparison, write_evaluation, write_meter, write_run

from agentgym_ttg.benchmarks.report import main, write_comparison_report
from agentgym_ttg.benchmarks.report._paper import METER_OVERHEAD, PAPER_VALUES
from agentgym_ttg.benchmarks.report._plots import pictures
from agentgym_ttg.benchmarks.report._sheets import ablation_sheet, comparison_sheet, sensitivity_sheet, transfer_sheet
from agentgym_ttg.benchmarks.report._study import load_study
from agentgym_ttg.benchmarks.report._verdict import separations, verdict
from agentgym_ttg.core.errors import ConfigError, MissingDependencyError

SEEDS = range(5)


def rising(end, *, start=0.2):
    return (start, round((start + end) / 2, 2), end)


def jobs_of(**ends):
    """Jobs of methods by their success at the end with each seed; those of ``deltattg…`` ask a meter."""
    out = []
    for name, rates in ends.items():
        method = name.replace("_", "-")
        for seed, end in enumerate(rates):
            meter = {"meter_seconds": 0.04} if method.startswith("deltattg") else {}
            out.append({"label": method, "method": method, "seed": seed, "curve": rising(end), **meter})
    return out


CLEAR = {
    "grpo": (0.40, 0.44, 0.42, 0.38, 0.46),
    "gigpo": (0.50, 0.56, 0.52, 0.48, 0.58),
    "deltattg": (0.70, 0.76, 0.72, 0.66, 0.78),
    "deltattg_rho0": (0.60, 0.66, 0.60, 0.58, 0.66),
}


def answers(folders, **settings):
    (env,) = load_study(folders, **settings).envs
    return {one.question: one.text for one in verdict(env)}


# The sentences ----------------------------------------------------------------------------------------------------


def test_a_clear_winner_is_called_one(tmp_path):
    told = answers([write_comparison(tmp_path, jobs_of(**CLEAR))])
    which = told["Which method is best?"]
    assert which.startswith("deltattg ends highest: 72.4%")
    assert "mean over 5 seeds" in which
    assert "better than every other method" in which
    assert "deltattg is +30.4 [" in told["By how much?"]
    assert "points over grpo" in told["By how much?"]
    assert "over the second, deltattg-rho0" in told["By how much?"]
    assert "better than deltattg-rho0 (by +10.4 [" in told["How sure is that?"]
    assert "correction for 3 comparisons" in told["How sure is that?"]
    assert "standard deviation" in told["How sure is that?"]
    assert "grpo ends at 42.0%" in told["How fast did they learn?"]
    assert "asking the meter adds 4.0%" in told["At what cost?"]


def test_what_the_seeds_do_not_separate_is_not_called_better(tmp_path):
    ends = {"grpo": (0.40, 0.52, 0.44, 0.50, 0.42), "deltattg": (0.50, 0.44, 0.52, 0.42, 0.48)}
    told = answers([write_comparison(tmp_path, jobs_of(**ends))])
    assert told["Which method is best?"].startswith("The seeds do not tell: deltattg ends highest")
    assert "not separated from any other" in told["Which method is best?"]
    assert "is not separated from grpo" in told["How sure is that?"]
    assert "better than" not in told["How sure is that?"]


def test_many_comparisons_need_a_larger_difference(tmp_path):
    """p = 0.009 alone: enough against one method, not as one of six."""
    mine, close = (0.52, 0.54, 0.60, 0.54, 0.58), (0.48, 0.50, 0.50, 0.48, 0.54)
    alone = answers([write_comparison(tmp_path / "two", jobs_of(grpo=close, deltattg=mine), reference="grpo")])
    assert "better than every other" in alone["Which method is best?"]
    others = {"dapo": close, "gigpo": close, "hgpo": close, "deltattg_rho0": close, "deltattg_logit": close}
    crowd = answers([write_comparison(tmp_path / "six", jobs_of(grpo=close, deltattg=mine, **others))])
    assert "better than every other" not in crowd["Which method is best?"]
    assert "only if no other comparison had been made" in crowd["How sure is that?"]


def test_few_seeds_prove_nothing_and_one_has_no_interval(tmp_path):
    two = answers([write_comparison(tmp_path / "two", jobs_of(grpo=(0.4, 0.4), deltattg=(0.9, 0.9)))])
    assert "fewer than three seeds" in two["How sure is that?"]
    assert "2 seeds say little about luck" in two["What does it not say?"].lower()
    one = answers([write_comparison(tmp_path / "one", jobs_of(grpo=(0.4,), deltattg=(0.9,)))])
    assert "one seed, so no interval" in one["Which method is best?"]
    assert "nan" not in " ".join(one.values())


def test_a_reference_that_did_not_improve_makes_speed_meaningless(tmp_path):
    jobs = jobs_of(deltattg=(0.5, 0.6, 0.7))
    jobs += [{"seed": seed, "curve": (0.2, 0.3, 0.2)} for seed in range(3)]
    told = answers([write_comparison(tmp_path, jobs)])
    assert "says nothing here" in told["How fast did they learn?"]


def test_a_method_that_only_plays_is_for_scale_and_never_the_best(tmp_path):
    jobs = [*jobs_of(grpo=(0.4, 0.5, 0.6)), {"label": "expert", "method": "expert", "rate": 1.0}]
    told = answers([write_comparison(tmp_path, jobs)])
    assert told["Which method is best?"].startswith("grpo ends highest")
    assert "For scale, without training: expert 100.0%" in told["By how much?"]
    played = [write_evaluation(tmp_path / name, name, rate=rate) for name, rate in (("random", 0.0), ("expert", 0.9))]
    assert answers(played)["Which method is best?"].endswith("expert ends highest: 90.0% (one seed, so no interval), "
                                                             "mean over one seed. But it is not separated from any "
                                                             "other method here.")  # fmt: skip


def test_separations_are_paired_and_sorted(tmp_path):
    (env,) = load_study([write_comparison(tmp_path, jobs_of(**CLEAR))]).envs
    found = separations(env, env.get("deltattg"))
    assert [one.column.label for one in found] == ["deltattg-rho0", "gigpo", "grpo"]
    assert {one.state for one in found} == {"apart"}
    assert [one.difference.mean for one in found] == pytest.approx([0.104, 0.196, 0.304])


# Tables and pictures ----------------------------------------------------------------------------------------------


@pytest.fixture
def everything(tmp_path):
    """A comparison with methods, ablations, sweeps and transfers on two environments."""
    out = tmp_path / "everything"
    own = str(write_meter(out / "shared" / "meter-own"))
    hard = str(write_meter(out / "shared" / "meter-hard", env_kwargs={"difficulty": "hard"}))
    ours = {"method": "deltattg", "meter": own, "meter_seconds": 0.04, "default_cost": 240.0}
    jobs = jobs_of(**{name: ends for name, ends in CLEAR.items() if name != "deltattg"})
    for seed, end in enumerate(CLEAR["deltattg"]):
        jobs.append({**ours, "seed": seed, "curve": rising(end), "splits": {"valid_unseen": 0.5}})
    for seed in range(3):
        for cost, end in ((60.0, 0.5), (960.0, 0.6)):
            label = f"deltattg,failure_cost={cost:g}"
            jobs.append({**ours, "label": label, "seed": seed, "curve": rising(end + seed / 50), "failure_cost": cost})
        for method, more in (("grpo", {}), ("deltattg", ours)):
            label = f"{method},group_size=16"
            run = {"method": method, "label": label, "seed": seed, "curve": rising(0.5), "group_size": 16}
            jobs.append({**more, **run})
        jobs.append({**ours, "label": "hard meter", "seed": seed, "curve": rising(0.6), "meter": hard})
        jobs.append({"env": SEARCH, "seed": seed, "curve": rising(0.3)})
        jobs.append({**ours, "env": SEARCH, "label": "meter of alfworld", "seed": seed, "curve": rising(0.4)})
    jobs.append({"env": SEARCH, "seed": 9, "begun": False})
    jobs.append({"label": "expert", "method": "expert", "rate": 1.0})
    return write_comparison(out, jobs)


def test_columns_are_sorted_by_what_they_are_for(everything):
    alfworld, search = load_study([everything]).envs
    roles = {column.label: column.role for column in alfworld.columns}
    assert roles == {
        "grpo": "method",
        "gigpo": "method",
        "deltattg": "method",
        "deltattg-rho0": "ablation",
        "deltattg,failure_cost=60": "sweep",
        "deltattg,failure_cost=960": "sweep",
        "grpo,group_size=16": "sweep",
        "deltattg,group_size=16": "sweep",
        "hard meter": "transfer",
        "expert": "scripted",
    }
    assert {column.label: column.role for column in search.columns} == {
        "grpo": "method",
        "meter of alfworld": "transfer",
    }
    assert [column.label for column in alfworld.contenders] == ["grpo", "gigpo", "deltattg-rho0", "deltattg"]


def test_the_tables_of_the_paper(everything):
    alfworld, search = load_study([everything]).envs
    table = comparison_sheet(alfworld)
    assert table.head == ("method", "seeds", "look at obj in light", "pick and place", "overall (valid_seen)",
                          "valid_unseen")  # fmt: skip
    cells = {row[0]: row for row in table.rows}
    assert list(cells) == ["expert", "grpo", "gigpo", "deltattg"]
    assert cells["deltattg"][4].startswith("72.4% [")
    assert cells["deltattg"][5].startswith("50.0%")
    assert cells["grpo"][5] == ""
    ablations = {row[0]: row for row in ablation_sheet(alfworld).rows}
    assert list(ablations) == ["deltattg", "deltattg-rho0"]
    assert "without the uniform part" in ablations["deltattg-rho0"][1]
    assert ablations["deltattg-rho0"][-2].startswith("-10.4 [")
    transfers = {row[0]: row for row in transfer_sheet(alfworld).rows}
    assert list(transfers) == ["grpo", "deltattg", "hard meter"]
    assert [row[1] for row in transfers.values()] == ["no meter", "alfworld", "alfworld, difficulty hard"]
    assert transfers["hard meter"][-1].startswith("-12.7 [")
    across = {row[0]: row for row in transfer_sheet(search).rows}
    assert across["meter of alfworld"][1] == "alfworld"
    assert ablation_sheet(search) is None


def test_a_sweep_has_the_method_itself_among_its_values(everything):
    alfworld = load_study([everything]).envs[0]
    sweeps = alfworld.sweeps()
    assert set(sweeps) == {"failure_cost", "group_size"}
    points = sweeps["failure_cost"]["deltattg"]
    assert [(point.value, point.default) for point in points] == [(60.0, False), (240.0, True), (960.0, False)]
    # Over the seeds that all values have: five seeds of one value and three of another are not compared.
    assert [point.final.n for point in points] == [3, 3, 3]
    assert points[1].final.mean == pytest.approx(sum(CLEAR["deltattg"][:3]) / 3)
    assert list(sweeps["group_size"]) == ["grpo", "deltattg"]
    rows = [row[:4] for row in sensitivity_sheet(alfworld).rows]
    assert ("failure cost C", "deltattg", "240 (as it is)", "3") in rows
    told = {one.question: one.text for one in verdict(alfworld)}["Which settings matter?"]
    assert "Failure cost C of deltattg: from 52.0% at 60 to 72.7% at 240" in told


def test_pictures_show_the_means_of_the_runs(everything):
    found = {picture.kind: picture for picture in pictures(load_study([everything]).envs[0])}
    assert set(found) == {"curves", "differences", "ablations", "compute", "transfer", "sensitivity"}
    lines = {line.name: line for line in found["curves"].plots[0].lines}
    assert list(lines) == ["grpo", "gigpo", "deltattg"]
    assert lines["deltattg"].x == [0, 5, 10]
    assert lines["deltattg"].y == pytest.approx([0.2, 0.462, 0.724])
    assert lines["deltattg"].low[2] < 0.724 < lines["deltattg"].high[2]
    assert found["curves"].plots[1].lines[0].x == [0, 5000, 10000]
    bars = found["compute"].plots[1]
    sizes = dict(bars.rows)
    assert bars.parts == ["rollouts", "asking the meter", "optimiser"]
    assert sizes["deltattg"] == pytest.approx([0.5, 0.04, 0.5])
    assert sizes["grpo"] == pytest.approx([0.5, 0.0, 0.5])
    level = found["sensitivity"].plots[0].level
    assert level == (pytest.approx(0.42), "grpo")
    assert found["sensitivity"].plots[1].level is None  # grpo is a line of its own there


# The files --------------------------------------------------------------------------------------------------------


def test_the_page_is_whole_and_needs_nothing_from_elsewhere(everything):
    page = write_comparison_report([everything], png=False)
    assert page == everything / "report" / "report.html"
    text = page.read_text(encoding="utf-8")
    found = Page(text)
    assert not {"script", "img", "iframe", "object", "embed", "form", "link", "base"} & set(found.tags)
    assert not [name for _, name, _ in found.attributes if name.startswith("on")]
    assert set(re.findall(r"""(?:https?:)?//[^\s"'<>]+""", text)) <= {"http://www.w3.org/2000/svg"}
    policies = [value for tag, name, value in found.attributes if (tag, name) == ("meta", "content")]
    assert any("default-src 'none'" in policy for policy in policies)
    places = [value for _, name, value in found.attributes if name == "id"]
    assert len(places) == len(set(places))
    links = [value.removeprefix("#") for tag, name, value in found.attributes if (tag, name) == ("a", "href")]
    assert set(links) <= set(places)
    for words in ("Which method is best?", "Learning curves", "Ablations", "Compute", "Transfer of the meter",
                  "Sensitivity", "Meters", "How to read this", "valid_unseen", "hard meter"):  # fmt: skip
        assert words in found.text, words
    assert f"grpo/seed-9 on {SEARCH}" in found.text  # what is missing is told
    assert "nan" not in re.sub(r"[a-z_]+nan|nan[a-z_]+", "", found.text.lower())


def test_pictures_can_be_heard_and_tables_be_walked_through(everything):
    found = Page(write_comparison_report([everything], png=False).read_text(encoding="utf-8"))
    svgs = found.tags.count("svg")
    labels = [value for tag, name, value in found.attributes if (tag, name) == ("svg", "aria-label")]
    hidden = [1 for tag, name, value in found.attributes if (tag, name, value) == ("svg", "aria-hidden", "true")]
    assert svgs == len(labels) + len(hidden)
    assert any("deltattg: from 20.0% to 72.4%" in label for label in labels)
    assert found.tags.count("caption") == found.tags.count("table")
    assert {value for tag, name, value in found.attributes if (tag, name) == ("th", "scope")} == {"col", "row"}
    assert ("html", "lang", "en") in found.attributes


def test_hostile_names_stay_text(tmp_path):
    name = "<script>alert(1)</script>|`x`"
    jobs = jobs_of(grpo=(0.4, 0.5, 0.6))
    out = write_comparison(tmp_path / "out", jobs)
    plan = json.loads((out / "compare.json").read_text())
    for job in plan["jobs"]:
        job["label"] = name
    plan["settings"]["reference"] = name
    (out / "compare.json").write_text(json.dumps(plan))
    page = write_comparison_report([out], png=False)
    found = Page(page.read_text(encoding="utf-8"))
    assert "script" not in found.tags
    assert name in found.text
    assert "\\|`x`" in page.with_suffix(".md").read_text()


def test_the_papers_numbers_are_shown_on_demand_and_as_the_papers(everything, tmp_path):
    plain = write_comparison_report([everything], tmp_path / "plain", png=False)
    beside = write_comparison_report([everything], tmp_path / "beside", png=False, paper=True)
    for kind in (".html", ".md"):
        without, with_them = (path.with_suffix(kind).read_text(encoding="utf-8") for path in (plain, beside))
        assert METER_OVERHEAD.value not in without
        assert METER_OVERHEAD.value in with_them
        assert "in the paper" in with_them
        assert all(one.value in with_them for one in PAPER_VALUES)
    assert all(one.source for one in PAPER_VALUES)


def test_markdown_and_csv_say_the_same_as_the_page(everything, tmp_path):
    page = write_comparison_report([everything], tmp_path / "out", png=False)
    text = page.with_suffix(".md").read_text(encoding="utf-8")
    html = Page(page.read_text(encoding="utf-8")).text
    (alfworld, _) = load_study([everything]).envs
    for one in verdict(alfworld):
        assert one.text in text
        assert one.text in html
    with open(page.parent / "results.csv", newline="") as file:
        rows = {(row["env"], row["label"]): row for row in csv.DictReader(file)}
    assert float(rows[ALFWORLD, "deltattg"]["success_mean"]) == pytest.approx(0.724)
    with open(page.parent / "curves.csv", newline="") as file:
        points = [row for row in csv.DictReader(file) if (row["label"], row["seed"]) == ("deltattg", "1")]
    assert [row["update"] for row in points] == ["0", "5", "10"]
    assert [float(row["success"]) for row in points] == pytest.approx(list(rising(0.76)))
    assert [row["generated_tokens"] for row in points] == ["0", "5000", "10000"]


def test_png_files_are_drawn_where_matplotlib_is(everything):
    pytest.importorskip("matplotlib")
    page = write_comparison_report([everything], png=True)
    names = {path.name for path in page.parent.glob("*.png")}
    kinds = ("curves", "differences", "ablations", "compute", "transfer", "sensitivity")
    assert {f"{kind}-alfworld.png" for kind in kinds} <= names
    assert all(path.read_bytes().startswith(b"\x89PNG\r\n") for path in page.parent.glob("*.png"))
    assert "![curves on alfworld](curves-alfworld.png)" in page.with_suffix(".md").read_text()
    before = {name: (page.parent / name).read_bytes() for name in names}
    write_comparison_report([everything], png=True)
    assert {name: (page.parent / name).read_bytes() for name in names} == before  # same numbers, same bytes


def test_without_matplotlib_the_rest_is_there(everything, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    assert main([str(everything)]) == 0
    told = capsys.readouterr()
    assert "matplotlib is not installed" in told.err
    folder = everything / "report"
    assert told.out.strip() == str(folder / "report.html")
    assert not list(folder.glob("*.png"))
    assert "](curves" not in (folder / "report.md").read_text()
    with pytest.raises(MissingDependencyError, match="train"):
        write_comparison_report([everything], png=True)
    assert main([str(everything), "--png", "True"]) == 2


# The command ------------------------------------------------------------------------------------------------------


def test_one_run_has_its_page_and_several_a_comparison(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = write_run(tmp_path / "one", seed=0)
    two = write_run(tmp_path / "two", "deltattg", seed=0, curve=(0.2, 0.6, 0.8))
    assert main([str(one)]) == 0
    assert capsys.readouterr().out.strip() == str(one / "report.html")
    assert "Learning curves" in (one / "report.html").read_text()
    assert main([str(one), str(two), "--png", "False"]) == 0
    assert capsys.readouterr().out.strip() == "report/report.html"
    assert "deltattg ends highest: 80.0%" in (tmp_path / "report" / "report.html").read_text()
    assert main([str(one), str(two), "--out", str(tmp_path / "named.html"), "--png", "False"]) == 0
    assert {path.name for path in tmp_path.glob("*.*")} >= {"named.html", "named.md", "results.csv", "curves.csv"}


def test_another_reference_can_be_chosen(tmp_path, capsys):
    out = write_comparison(tmp_path / "out", jobs_of(**CLEAR))
    assert "points over gigpo" in answers([out], reference="gigpo")["By how much?"]
    assert main([str(out), "--reference", "gpo"]) == 2
    assert "there are grpo, gigpo" in capsys.readouterr().err
    jobs = jobs_of(gigpo=(0.4, 0.5, 0.6), hgpo=(0.5, 0.5, 0.5))
    told = answers([write_comparison(tmp_path / "none", jobs, reference="grpo")])
    assert "over grpo" not in told["By how much?"]  # no run of it: nothing is made up
    assert "How fast did they learn?" not in told


def test_nothing_complete_is_a_report_that_says_so(tmp_path):
    out = write_comparison(tmp_path / "out", [{"begun": False}, {"seed": 1, "complete": False}])
    (out / "status.json").write_text(
        json.dumps({"jobs": [{"path": "runs/alfworld/grpo/seed-0", "error": "warming up\nno space left"}]})
    )
    found = Page(write_comparison_report([out], png=False).read_text(encoding="utf-8"))
    assert "0 of 2 runs complete" in found.text
    assert "nothing to compare" in found.text
    assert "failed: no space left" in found.text


def test_a_place_that_cannot_be_written_is_told(tmp_path, capsys):
    out = write_comparison(tmp_path / "out", jobs_of(grpo=(0.4,)))
    assert main([str(out), "--out", "/proc/nowhere", "--png", "False"]) == 2
    assert "cannot write" in capsys.readouterr().err
    assert main([str(out), str(tmp_path / "no-run")]) == 2
    assert "no run folder" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="no run folder"):
        write_comparison_report([tmp_path / "no-run", out])


def test_it_opens_in_a_browser(everything, tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium here")
    page = write_comparison_report([everything], png=False)
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    more = ["--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [browser, *flags.split(), *more, page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    written = Page(page.read_text(encoding="utf-8"))
    assert re.findall(r"<(svg)", done.stdout).count("svg") == written.tags.count("svg")
    assert re.findall(r"<(table)", done.stdout).count("table") == written.tags.count("table")
