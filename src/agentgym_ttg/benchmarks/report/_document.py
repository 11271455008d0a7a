"""A page: one self-contained file, nothing fetched and nothing run."""

from __future__ import annotations

from ._text import Html, element, esc, join

__all__ = ["document"]

_STYLE = """
:root{color-scheme:light}
body{font:15px/1.45 system-ui,sans-serif;color:#1a1a1a;background:#fff;max-width:1080px;margin:0 auto;padding:24px}
h1{font-size:24px;margin:0 0 4px}h2{font-size:18px;margin:34px 0 8px;border-bottom:1px solid #ddd;padding-bottom:4px}
h3{font-size:14px;margin:0 0 2px;font-weight:600}
nav a{margin-right:14px}.note,.none{color:#555;margin:4px 0}.warn{background:#fff3cd;padding:6px 10px;border-radius:4px}
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:16px 0}
.tile{border:1px solid #ddd;border-radius:6px;padding:8px 14px;min-width:130px}
.tile b{display:block;font-size:20px}.tile span{color:#555;font-size:13px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:18px}
figure{margin:0}svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#333}
svg .label{font-size:12px}.grid{stroke:#e6e6e6}.axis{stroke:#888}
figcaption{font-size:12px;color:#333;padding-left:50px}figcaption span{margin-right:14px;white-space:nowrap}
figcaption i{display:inline-block;width:14px;height:3px;margin-right:5px;vertical-align:middle}
table{border-collapse:collapse;margin:6px 0}th,td{padding:3px 9px;text-align:left;vertical-align:top}
thead th,.steps th{border-bottom:1px solid #bbb}tbody tr:nth-child(even){background:#fafafa}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.bars{width:100%;max-width:760px}.bars th{font-weight:400;white-space:nowrap}.bars .bar{width:60%}
.bar span{display:block;height:13px;margin-top:4px;background:#0072b2;border-radius:2px}
details{border:1px solid #ddd;border-radius:6px;margin:8px 0;padding:4px 10px}summary{cursor:pointer;padding:3px 0;
overflow-wrap:anywhere}.steps{width:100%;font-size:13px}.steps td{border-top:1px solid #eee}
.obs,.act{white-space:pre-wrap;overflow-wrap:anywhere}.obs{color:#444}.system{color:#888}
.act{font-family:ui-monospace,monospace;font-weight:600;margin-top:3px}.act::before{content:"> "}
.invalid{color:#b00020}.outcome{padding:1px 7px;border-radius:9px;font-size:12px;background:#eee}
.success{background:#cdeee2}.failure,.truncated{background:#fbdcc8}.error{background:#f5c2c7}
pre{background:#f6f6f6;padding:10px;overflow:auto;font-size:12px}
"""

#: Nothing is fetched and nothing is run, whatever a model has written.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def document(title: str, body: Html, *, style: str = "") -> str:
    """Return an HTML document.

    Args:
        title: Its title.
        body: What is in it.
        style: Rules beside those that all pages share.
    """
    head = join(
        [
            Html('<meta charset="utf-8">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{esc(_POLICY)}">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            element("title", title),
            element("style", Html(_STYLE + style)),
        ]
    )
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'
