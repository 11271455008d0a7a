"""The report of a comparison: the answers first, then the paper's tables and figures, then every run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..compare.tables import Sheet, compute_sheet, effort_sheet, markdown_table, seconds_sheet, success_sheet
from ..setup import short_name
from ._charts import draw_plot
from ._document import document
from ._paper import METER_OVERHEAD
from ._plots import Picture, pictures
from ._sheets import (
    ablation_sheet,
    comparison_sheet,
    meter_sheet,
    paper_sheet,
    runs_sheet,
    sensitivity_sheet,
    transfer_sheet,
)
from ._study import EnvStudy, Study
from ._svg import note
from ._text import Html, element, join
from ._verdict import best_of, verdict

__all__ = ["render_comparison", "write_markdown"]

_STYLE = """
body{max-width:1180px}h2{font-size:22px;margin-top:44px}h3{font-size:17px;margin:30px 0 6px}
nav{position:sticky;top:0;background:#fff;padding:8px 0;border-bottom:1px solid #ddd;z-index:1}
nav a,nav a:visited{color:#005a9c}section h2,section h3[id]{scroll-margin-top:52px}
.verdict{background:#eef6fc;border-left:4px solid #0072b2;padding:4px 18px 10px;margin:14px 0 22px}
.verdict dt{font-weight:600;margin-top:9px}.verdict dd{margin:1px 0 0}
.verdict dd:first-of-type{font-size:17px}
.scroll{overflow-x:auto}.scroll:focus-visible,a:focus-visible,summary:focus-visible{outline:3px solid #e69f00}
table{font-size:14px}table caption{text-align:left;font-weight:600;padding:4px 0}
th[scope=row]{font-weight:600;white-space:nowrap}thead th{background:#f4f6f8;vertical-align:bottom;max-width:130px}
thead th.n{white-space:normal}
tr.best th,tr.best td{background:#e5f4ea}td.wide{white-space:normal;min-width:240px;color:#333}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(430px,1fr));gap:10px 26px}
.plots.small{grid-template-columns:repeat(auto-fit,minmax(310px,1fr))}
.plots.single{grid-template-columns:minmax(0,760px)}
.plot h3{font-size:14px;margin:8px 0 4px}.plots.small svg text{font-size:15px}.plot figcaption{padding-left:8px}
svg.sample{width:30px;height:8px;vertical-align:middle;margin-right:6px}
figcaption i.box{height:11px;width:11px}.paper{background:#fdf6e3}
@media print{nav{display:none}details{break-inside:avoid}.plot,tr{break-inside:avoid}}
@media (max-width:560px){.plots,.plots.small{grid-template-columns:1fr}body{padding:12px}}
"""


def render_comparison(study: Study, *, paper: bool = False) -> str:
    """Return the report as an HTML document.

    Args:
        study: The comparison.
        paper: Whether to show the paper's numbers beside ours.
    """
    title = _title(study)
    parts: list[Any] = [element("h1", title), element("p", _subtitle(study), class_="note"), _warnings(study)]
    links = [*((f"env-{env.slug}", short_name(env.env)) for env in study.envs)]
    links += [("paper", "the paper's numbers")] if paper else []
    links += [("runs", "runs"), ("reading", "how to read this"), ("settings", "settings")]
    parts.append(element("nav", *(element("a", name, href=f"#{place}") for place, name in links), aria_label="Parts"))
    main = [_environment(env, paper) for env in study.envs]
    if not study.envs:
        main.append(element("p", "No run is complete yet; there is nothing to compare.", class_="warn"))
    if paper:
        main.append(_section("paper", "The paper's numbers", [_table(paper_sheet(), class_="paper")]))
    main.append(_section("runs", "Runs", [_runs(study)]))
    main.append(_section("reading", "How to read this", [_reading(study)]))
    main.append(_section("settings", "Settings", [_settings(study)]))
    parts.append(element("main", *main))
    return document(title, join(parts), style=_STYLE)


def write_markdown(study: Study, images: Sequence[Picture], *, paper: bool = False) -> str:
    """Return the report as Markdown.

    Args:
        study: The comparison.
        images: Pictures that stand as PNG files beside it.
        paper: Whether to show the paper's numbers beside ours.
    """
    blocks = [f"# {_title(study)}", _subtitle(study), *_warning_texts(study)]
    for env in study.envs:
        blocks.append(f"## {env.env}")
        blocks.append("\n".join(f"- **{one.question}** {one.text}" for one in verdict(env, paper=paper)))
        for title, sheets, kinds in _parts(env):
            blocks.append(f"### {title}")
            blocks += [markdown_table(sheet) for sheet in sheets]
            shown = [picture for picture in images if picture.env == env.slug and picture.kind in kinds]
            blocks += [f"![{picture.kind} on {picture.env}]({picture.name}.png)" for picture in shown]
            if title == "Compute" and paper:
                blocks.append(_paper_overhead())
    if paper:
        blocks += ["## The paper's numbers", markdown_table(paper_sheet())]
    blocks += ["## Runs", markdown_table(runs_sheet(study))]
    return "\n\n".join(block for block in blocks if block) + "\n"


# What is shown ----------------------------------------------------------------------------------------------------


def _parts(env: EnvStudy) -> list[tuple[str, list[Sheet], tuple[str, ...]]]:
    """Return the parts of an environment's section: title, tables, kinds of pictures."""
    found: list[tuple[str, list[Sheet | None], tuple[str, ...]]] = [
        ("Comparison", [comparison_sheet(env)], ()),
        ("Learning curves", [], ("curves",)),
        ("Differences from the reference", [success_sheet(env.main)], ("differences",)),
        ("What it took", [effort_sheet(env.main)], ()),
        ("Ablations", [ablation_sheet(env)], ("ablations",)),
        ("Compute", [compute_sheet(env.main), seconds_sheet(env.main)], ("compute",)),
        ("Transfer of the meter", [transfer_sheet(env)], ("transfer",)),
        ("Sensitivity", [sensitivity_sheet(env)], ("sensitivity",)),
        ("Meters", [meter_sheet(env)], ()),
    ]
    there = {picture.kind for picture in pictures(env)}
    out = []
    for title, sheets, kinds in found:
        tables = [sheet for sheet in sheets if sheet is not None]
        shown = tuple(kind for kind in kinds if kind in there)
        if tables or shown:
            out.append((title, tables, shown))
    return out


def _environment(env: EnvStudy, paper: bool) -> Html:
    drawn = {picture.kind: picture for picture in pictures(env)}
    answers = join(join([element("dt", one.question), element("dd", one.text)]) for one in verdict(env, paper=paper))
    best = best_of(env.contenders)
    content: list[Any] = [element("dl", answers, class_="verdict")]
    for title, sheets, kinds in _parts(env):
        content.append(element("h3", title, id=f"{env.slug}-{title.lower().replace(' ', '-')}"))
        for kind in kinds:
            content.append(_picture(drawn[kind]))
        content += [_table(sheet, best=best.label if best else "") for sheet in sheets]
        if title == "Compute" and paper:
            content.append(element("p", _paper_overhead(), class_="note paper"))
    return _section(f"env-{env.slug}", env.env, content)


def _paper_overhead() -> str:
    return f"In the paper: {METER_OVERHEAD.name} {METER_OVERHEAD.value} ({METER_OVERHEAD.setting})."


def _picture(picture: Picture) -> Html:
    plots = [draw_plot(plot) for plot in picture.plots]
    grid = ""
    if picture.kind in ("ablations", "sensitivity") and len(plots) > 2:
        grid = " small"
    elif len(plots) == 1:
        grid = " single"
    return join([element("div", *plots, class_=f"plots{grid}"), note(picture.caption)])


def _section(name: str, title: str, content: Sequence[Any]) -> Html:
    return element("section", element("h2", title, id=name), *content, aria_labelledby=name)


#: Columns whose cells are text, not numbers.
_TEXT = frozenset({"what it is", "folder", "state", "for", "where we have it from", "what", "meter learned on"})


def _table(sheet: Sheet, *, best: str = "", class_: str | None = None) -> Html:
    kinds = [None, *("wide" if name in _TEXT else "n" for name in sheet.head[1:])]
    head = element(
        "thead",
        element("tr", *(element("th", n, scope="col", class_=k) for n, k in zip(sheet.head, kinds, strict=True))),
    )
    body = []
    for row in sheet.rows:
        cells: list[Html] = [element("th", row[0], scope="row")]
        cells += [element("td", cell, class_=kind) for kind, cell in zip(kinds[1:], row[1:], strict=True)]
        body.append(element("tr", *cells, class_="best" if best and row[0] == best else None))
    title = sheet.title.split(": ", 1)[-1]
    table = element("table", element("caption", f"{title[0].upper()}{title[1:]}"), head, element("tbody", *body))
    frame = element(
        "div", table, class_=f"scroll {class_ or ''}".strip(), tabindex="0", role="region", aria_label=title
    )
    return join([frame, note(sheet.note) if sheet.note else ""])


# Around it --------------------------------------------------------------------------------------------------------


def _title(study: Study) -> str:
    names = [short_name(env.env) for env in study.envs]
    labels = {column.label for env in study.envs for column in env.columns}
    return (
        f"{len(labels)} methods and variants on {', '.join(names)}" if names else "A comparison without complete runs"
    )


def _subtitle(study: Study) -> str:
    complete = sum(run.complete for run in study.runs)
    seeds = sorted({run.seed for run in study.runs})
    parts = [f"{complete} of {len(study.runs)} runs complete", f"seeds {', '.join(map(str, seeds))}"]
    references = {env.comparison.reference for env in study.envs} - {None}
    parts += [f"reference {reference}" for reference in sorted(map(str, references))]
    parts += [f"commit {commit}" for commit in study.commits]
    return " · ".join(parts)


def _warning_texts(study: Study) -> list[str]:
    out = []
    if missing := study.comparison.incomplete:
        shown = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
        out.append(f"Not complete, and left out of every number: {shown}.")
    if len(study.commits) > 1:
        out.append(f"The runs were made with {len(study.commits)} states of the code: {', '.join(study.commits)}.")
    return out


def _warnings(study: Study) -> Html:
    return join(element("p", text, class_="warn", role="note") for text in _warning_texts(study))


def _runs(study: Study) -> Html:
    complete = sum(run.complete for run in study.runs)
    told = f"{complete} of {len(study.runs)} runs are complete"
    opened = "" if complete < len(study.runs) else None  # what failed is not hidden
    return element("details", element("summary", told), _table(runs_sheet(study)), open=opened)


def _reading(study: Study) -> Html:
    confidence = f"{study.comparison.confidence:.0%}"
    texts = [
        f"A seed is one training run. Intervals are {confidence} and say how sure the mean over training runs is "
        "(Student's t). They do not say how success would change with other tasks: all runs are evaluated on the same.",
        "Differences are taken between runs with the same seed, which had the same tasks in the same order. Two are "
        "called apart only if the paired t test gives p < 0.05 after Holm's correction for all comparisons made.",
        "What it took to reach a level is read off each run's curve, where it first gets there; a curve that wavers "
        "gets there early by luck, and so does the reference's, which is why its own number stands beside.",
        "Cost is wall time of the updates for each actor token generated, with the reference as the unit, on whatever "
        "machine the runs had; runs that share a machine disturb each other.",
        "Settings that were swept are not among what can be the best: the best of many values is partly luck.",
    ]
    return element("ul", *(element("li", text) for text in texts))


def _settings(study: Study) -> Html:
    configs = [run.config for run in study.runs if run.complete]
    names = list(dict.fromkeys(name for config in configs for name in config))
    same, other = {}, {}
    for name in names:
        values = {json.dumps(config.get(name), sort_keys=True) for config in configs}
        if len(values) == 1:
            same[name] = configs[0].get(name)
        elif name != "meter":
            other[name] = sorted(values)
    blocks = {"Settings that all runs share": same, "Settings that differ": other, **study.settings}

    def block(title: str, value: Any) -> Html:
        text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
        return element("details", element("summary", title), element("pre", text))

    return join(block(title, value) for title, value in blocks.items() if value)
