"""Pages for people that are one HTML file and need nothing else: reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1b1f24; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } caption { text-align: left; color: #57606a; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #d0d7de; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code, pre { font: 12px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
ul { margin: .2rem 0; padding-left: 1.2rem; } small { color: #57606a; } small code { font-size: 11px; }
.wide { overflow-x: auto; } .wide td { overflow-wrap: break-word; min-width: 3rem; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; }
 th, td { border-color: #30363d; } caption, small { color: #8b949e; } }
"""


def html_page(title: str, style: str, body: Iterable[str]) -> str:
    """The page. `title` is text; `style`: CSS beside what all pages have; `body`: HTML."""
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_STYLE}{style}</style></head><body>",
            *body,
            "</body></html>\n",
        )
    )


def html_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of text; without `heads`, the first cell of each row is its head."""
    if heads:
        head = f"<thead><tr>{''.join(f'<th>{escape(name)}</th>' for name in heads)}</tr></thead>"
        lines = (f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    else:
        head = ""
        lines = (
            f"<tr><th>{escape(str(first))}</th>{''.join(f'<td>{escape(str(cell))}</td>' for cell in rest)}</tr>"
            for first, *rest in rows
        )
    return f'<div class="wide"><table>{head}<tbody>{"".join(lines)}</tbody></table></div>'
