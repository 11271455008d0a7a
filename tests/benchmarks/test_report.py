import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET

import pytest
from html_page import Page
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_envs import COUNTING

from agentgym_ttg.benchmarks.report import load_run, main, render, write_report
from agentgym_ttg.benchmarks.report._svg import Series, line_chart, nice_ticks
from agentgym_ttg.benchmarks.report._text import element, esc
from agentgym_ttg.benchmarks.run import main as run
from agentgym_ttg.core import Completion, Message, Trajectory, TrajectoryWriter, Turn

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</td></table></body></html>",
    "<!-- ",
    "]]>",
    "&lt;b&gt;",
    "javascript:alert(1)",
    "<style>body{display:none}</style>",
    "\ud800 \x00 \u202e \x1b[31m",
    "'\" onmouseover='alert(1)'",
]


@pytest.fixture
def trained(tmp_path):
    """A run folder as training leaves it, with hostile text wherever text can be."""
    folder = tmp_path / "run"
    (folder / "meter").mkdir(parents=True)
    write = lambda name, value: (folder / name).write_text(json.dumps(value))  # noqa: E731
    lines = lambda name, rows: (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))  # noqa: E731
    write("config.json", {"method": "deltattg", "env": HOSTILE[0], "split": HOSTILE[1], "seed": 3})
    write("environment.json", {"data": {"source": HOSTILE[2]}, "git": {"commit": "c0ffee" * 6, "dirty": True}})
    write("stages.json", {"warm_start": {"seconds": 2.0, "result": HOSTILE[3]}, "meter": {"seconds": 41.5}})
    lines(
        "metrics.jsonl",
        [
            {"update": u, "success": u / 20, "reward": u / 20, "actor_tokens": 1000 * (u + 1), "entropy": 2 - u / 20,
             "kl": None, "seconds_rollout": 1.0, "seconds_meter": 0.25, "seconds_update": 2.0}
            for u in range(20)
        ],
    )  # fmt: skip
    lines(
        "evaluations.jsonl",
        [
            {"update": u, "eval_success": 0.25 + u / 40, "eval_low": 0.2, "eval_high": 0.9, "seconds": 3.0}
            for u in (0, 10, 20)
        ],
    )
    numbers = {"completion_auroc": 0.875, "completion_accuracy": 0.8, "mean_absolute_error": 12.5}
    write(
        "meter/report.json",
        {
            "kind": "head",
            "policies": {HOSTILE[4]: 10},
            "test": {
                "meter": numbers, "constant": {"completion_auroc": 0.5}, "steps": {}, "beats_references": True,
                "completion_calibration": [{"estimate": 0.2, "actual": 0.1, "histories": 5},
                                           {"estimate": 0.8, "actual": 0.9, "histories": 5}],
                "value_calibration": [],
            },
        },
    )  # fmt: skip
    with TrajectoryWriter(folder / "samples.jsonl") as writer:
        for number, text in enumerate(HOSTILE):
            turns = [
                Turn(
                    (Message("user", text),),
                    Completion(text),
                    observation=text,
                    tokens=7,
                    valid=step != 1,
                    metadata={
                        "estimate": {"can_complete": step != 2, "remaining_tokens": 40.0 - step, "valid": step != 1},
                        "cost": 40.0 - step,
                        "delta": (-1.0) ** step * 3.5,
                        "weight": 1.0 + step,
                        "advantage": -0.5,
                    },
                )
                for step in range(3)
            ]
            writer.write(
                Trajectory("e", f"task-{number}-{text}", text, turns, outcome="success", metadata={"update": number})
            )
    return folder


def test_hostile_text_stays_text(trained):
    page = write_report(trained, samples=20).read_text(encoding="utf-8")
    found = Page(page)
    assert not {"script", "img", "iframe", "object", "embed", "form", "link", "base"} & set(found.tags)
    assert found.tags.count("style") == found.tags.count("body") == 1
    assert not [name for _, name, _ in found.attributes if name.startswith("on")]
    assert all(value.startswith("#") for _, name, value in found.attributes if name in ("href", "src"))
    for text in HOSTILE:
        shown = "".join(c if c.isprintable() else "\ufffd" for c in text)
        assert found.text.count(shown) >= 7, text


def test_the_page_needs_nothing_from_elsewhere(trained):
    page = write_report(trained).read_text(encoding="utf-8")
    policies = [value for tag, name, value in Page(page).attributes if (tag, name) == ("meta", "content")]
    assert any("default-src 'none'" in policy for policy in policies)
    addresses = set(re.findall(r"""(?:https?:)?//[^\s"'<>]+""", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "url(" not in page
    assert "@import" not in page


def test_it_shows_curves_meter_time_and_credit(trained):
    found = Page(write_report(trained).read_text(encoding="utf-8"))
    for title in ("Learning curves", "Progress meter", "Time by stage", "Sample trajectories", "Optimisation"):
        assert title in found.text
    assert "25.0% [20.0%, 90.0%]" in found.text  # before
    assert "75.0% [20.0%, 90.0%]" in found.text  # after
    assert "0.875" in found.text
    assert "beats both references" in found.text
    assert found.tags.count("svg") >= 6
    assert "KL to the start" not in found.text  # no number, no chart
    for words in ("40 to go", "cannot complete", "invalid", "+3.50", "-3.50", "3.00"):
        assert words in found.text
    shades = {value for tag, name, value in found.attributes if tag == "td" and name == "style"}
    assert len(shades) >= 4


def test_a_run_that_goes_on_has_a_report_too(trained):
    (trained / "results.json").unlink(missing_ok=True)
    with open(trained / "metrics.jsonl", "a") as file:
        file.write('{"update": 20, "succ')
    for name in ("evaluations.jsonl", "stages.json", "samples.jsonl", "environment.json"):
        (trained / name).unlink()
    shutil.rmtree(trained / "meter")
    page = write_report(trained).read_text(encoding="utf-8")
    assert "not complete" in Page(page).text
    (trained / "metrics.jsonl").unlink()
    Page(write_report(trained).read_text(encoding="utf-8"))


def test_an_evaluation_has_a_report_with_its_episodes(tmp_path):
    flags = ["--env", f"toy_envs:{COUNTING}", "--method", "noisy-expert", "--noise", "0.6", "--episodes", "30"]
    assert run([*flags, "--out", str(tmp_path / "run")]) == 0
    found = Page((tmp_path / "run" / "report.html").read_text(encoding="utf-8"))
    assert "Learning curves" not in found.text
    assert "Results" in found.text
    assert "count/test/000000" in found.text
    assert found.text.count("> ") or "up" in found.text
    assert len(load_run(tmp_path / "run").samples) <= 12


def test_a_very_long_message_is_cut_in_the_middle(tmp_path, trained):
    text = "a" * 10_000 + "END"
    (trained / "samples.jsonl").unlink()
    with TrajectoryWriter(trained / "samples.jsonl") as writer:
        writer.write(Trajectory("e", "t", "p", [Turn((Message("user", text),), Completion("x"))]))
    page = write_report(trained, tmp_path / "elsewhere" / "page.html").read_text()
    assert "characters left out" in page
    assert "END" in page
    assert "a" * 9_000 not in page


def test_what_is_no_run_folder_is_told(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "no run folder" in capsys.readouterr().err
    (tmp_path / "config.json").write_text("{")
    assert main([str(tmp_path)]) == 2
    assert "config.json" in capsys.readouterr().err
    (tmp_path / "config.json").write_text("{}")
    assert main([str(tmp_path), "--out", "/proc/report.html"]) == 2
    assert "cannot write" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "report.html")


@given(st.text())
def test_escaped_text_reads_back_as_it_was_shown(text):
    found = Page(element("p", text, title=text))
    shown = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
    assert found.text == shown
    assert found.attributes == [("p", "title", shown)]
    assert esc(esc(text)) == esc(text)


numbers = st.floats(allow_nan=True, allow_infinity=True) | st.floats(-1e6, 1e6)


@settings(max_examples=60)
@given(st.lists(st.tuples(numbers, numbers), max_size=12), st.sampled_from(["line", "dotted", "dots", "faint"]))
def test_any_numbers_make_a_chart(points, style):
    ET.fromstring(line_chart([Series("s", points, [(0.0, 1.0)] * len(points), style)], x="x", y="y"))


wide = st.floats(-1e9, 1e9).filter(lambda value: value == 0 or abs(value) > 1e-9)


@given(wide, wide)
def test_ticks_cover_the_interval(a, b):
    low, high = min(a, b), max(a, b)
    ticks = nice_ticks(low, high)
    slack = 1e-6 * max(abs(low), abs(high))
    assert 2 <= len(ticks) <= 12
    assert ticks == sorted(set(ticks))
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack


def test_it_opens_in_a_browser(trained, tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium here")
    page = write_report(trained, samples=20)
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    more = ["--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [browser, *flags.split(), *more, page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    tags = re.findall(r"<(\w+)", done.stdout)
    assert tags.count("svg") >= 6
    assert tags.count("details") >= len(HOSTILE)
    assert not {"script", "img", "iframe"} & set(tags)  # the browser's own parser sees none either
    assert render(load_run(trained, samples=20)).count("<svg") == tags.count("svg")
