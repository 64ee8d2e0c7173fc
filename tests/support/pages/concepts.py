"""The pictures of docs/concepts, all of one style: `python -m tests.support.pages.concepts` draws them.

A picture is a row of panels. Three kinds of panel are enough: clusters with clients and a gateway before them, two logs
side by side, and lanes along a time line. What a panel shows is said in words here; where it stands is worked out.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[3] / "docs" / "pictures"
_INK, _MIRROR, _WATER, _PALE, _STILL = "#12344d", "#c2571a", "#9cc9e6", "#e4f0f8", "#8b979f"
_PANEL, _GAP, _TOP = 286, 14, 46
_AT: Final[Mapping[str, tuple[int, int, int]]] = {
    "clients": (88, 56, 110),
    "gateway": (88, 126, 110),
    "source": (14, 206, 110),
    "target": (162, 206, 110),
}
"""Name -> left, top, width within a panel of clusters; all are 38 high."""


@dataclass(frozen=True, slots=True)
class Flow:
    """An arrow from one box to another, `mirror`, `still` (nothing flows) or plain, with a word beside it."""

    start: str
    end: str
    word: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Clusters:
    """A panel: its title, what flows, which cluster is written, and a line or two below."""

    title: str
    flows: Sequence[Flow]
    written: str
    said: Sequence[str]
    gateway: bool = True


@dataclass(frozen=True, slots=True)
class Logs:
    """A panel: offsets of records on the source and on the target, in pairs; None: no record has this offset."""

    title: str
    source: Sequence[str | None]
    target: Sequence[str | None]
    said: Sequence[str]


@dataclass(frozen=True, slots=True)
class Lanes:
    """The one panel of a picture: lanes of (from, to, kind, word) along a time line of 0 to 100, and marks of it."""

    title: str
    lanes: Sequence[tuple[str, Sequence[tuple[int, int, str, str]]]]
    marks: Sequence[tuple[int, str]]
    said: Sequence[str]


Panel = Clusters | Logs | Lanes

PICTURES: Final[Mapping[str, tuple[str, Sequence[Panel]]]] = {
    "concept-lock": (
        "A migration in three stages: clients at the source, clients at the gateway, writes on the target",
        (
            Clusters(
                "1. Before",
                (Flow("clients", "source", "all"),),
                "source",
                ("The target is there, and empty.",),
                gateway=False,
            ),
            Clusters(
                "2. Clients at the gateway",
                (
                    Flow("clients", "gateway"),
                    Flow("gateway", "source", "writes"),
                    Flow("gateway", "target", "reads"),
                    Flow("source", "target", "mirror", "mirror"),
                ),
                "source",
                ("The source is written; what is written", "comes out on both clusters."),
            ),
            Clusters(
                "3. Promoted",
                (Flow("clients", "gateway"), Flow("gateway", "target", "all")),
                "target",
                ("The target is written. Nobody was", "restarted for that."),
            ),
        ),
    ),
    "concept-mirror": (
        "A mirror keeps offsets where the source's log has no gaps, and relates them by an exact map where it has",
        (
            Logs(
                "Mode preserve",
                ("0", "1", "2", "3", "4", "5"),
                ("0", "1", "2", "3", "4", "5"),
                ("No gaps: a record has the same", "offset on both clusters."),
            ),
            Logs(
                "Mode translate",
                ("0", "1", None, "3", None, "5"),
                ("0", "1", "2", "3", None, None),
                ("Compacted or transactional: gaps are", "closed, an exact map relates offsets."),
            ),
        ),
    ),
    "concept-gate": (
        "A consumer group waits at the gate until its last member has left the source, then reads on at the target",
        (
            Clusters(
                "1. One member has moved",
                (Flow("clients", "gateway", "waits", "still"), Flow("source", "target", "mirror", "mirror")),
                "source",
                ("The other member still reads on the", "source, all partitions of the group."),
            ),
            Clusters(
                "2. The last one has left",
                (
                    Flow("clients", "gateway", "waits", "still"),
                    Flow("gateway", "source", "offsets?"),
                    Flow("gateway", "target", "offsets"),
                ),
                "source",
                ("Committed offsets are read, translated,", "committed on the target, read back."),
            ),
            Clusters(
                "3. The gate is open",
                (
                    Flow("clients", "gateway"),
                    Flow("gateway", "target", "reads"),
                    Flow("source", "target", "mirror", "mirror"),
                ),
                "source",
                ("The group reads on at the target.", "Writes still go to the source."),
            ),
        ),
    ),
    "concept-pause": (
        "The write pause of a promote: writes wait, the mirror drains, the cutover is stored, writes go on",
        (
            Lanes(
                "One promote, some tens of milliseconds",
                (
                    (
                        "clients",
                        ((0, 30, "ink", "writes"), (30, 76, "wait", "writes wait"), (76, 100, "ink", "writes")),
                    ),
                    ("source", ((0, 34, "ink", "written"), (34, 100, "still", "its end stands still"))),
                    (
                        "mirror",
                        ((0, 30, "mirror", "copies"), (30, 56, "mirror", "drains"), (56, 100, "still", "stopped")),
                    ),
                    (
                        "target",
                        (
                            (0, 30, "mirror", "is filled"),
                            (30, 56, "mirror", ""),
                            (56, 76, "still", ""),
                            (76, 100, "ink", "written"),
                        ),
                    ),
                ),
                ((30, "pause"), (56, "level"), (76, "cutover")),
                ("Whatever goes wrong before the cutover ends the pause, and everything is as it was.",),
            ),
        ),
    ),
    "concept-undo": (
        "After a promote the mirror turns round and keeps the source level, so that writes can go back",
        (
            Clusters(
                "1. Promoted, undo open",
                (
                    Flow("clients", "gateway"),
                    Flow("gateway", "target", "all"),
                    Flow("target", "source", "mirror back", "mirror"),
                ),
                "target",
                ("The source follows the target, for as", "long as failback.keep says."),
            ),
            Clusters(
                "2. mirror undo",
                (
                    Flow("clients", "gateway", "writes wait", "still"),
                    Flow("target", "source", "drains", "mirror"),
                ),
                "target",
                ("A write pause as in a promote: what the", "source does not have yet is waited for."),
            ),
            Clusters(
                "3. Home",
                (
                    Flow("clients", "gateway"),
                    Flow("gateway", "source", "writes"),
                    Flow("gateway", "target", "reads"),
                    Flow("source", "target", "mirror", "mirror"),
                ),
                "source",
                ("The source is written again, and", "mirrored. Nothing is lost."),
            ),
        ),
    ),
}


def drawn(name: str) -> str:
    """The picture of that name, as SVG."""
    title, panels = PICTURES[name]
    wide = 3 if isinstance(panels[0], Lanes) else len(panels)
    width = wide * _PANEL + (wide + 1) * _GAP
    height = 344
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
        ' font-family="Helvetica, Arial, sans-serif" font-size="14" role="img" aria-labelledby="t">',
        f'<title id="t">{escape(title)}</title>',
        "<defs>",
        *(_head(kind, colour) for kind, colour in (("ink", _INK), ("mirror", _MIRROR), ("still", _STILL))),
        "</defs>",
        f'<rect width="{width}" height="{height}" rx="10" fill="#f6f9fb"/>',
    ]
    for index, panel in enumerate(panels):
        left = _GAP + index * (_PANEL + _GAP)
        across = width - 2 * _GAP if isinstance(panel, Lanes) else _PANEL
        parts.append(f'<g transform="translate({left} {_GAP})">')
        parts.append(f'<rect width="{across}" height="{height - 2 * _GAP}" rx="8" fill="#fff" stroke="#d5e0e8"/>')
        parts.append(_text(across / 2, 28, panel.title, size=16, bold=True))
        parts += _inside(panel, across)
        parts += [_text(across / 2, 284 + 19 * line, said) for line, said in enumerate(panel.said)]
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _inside(panel: Panel, across: int) -> list[str]:
    if isinstance(panel, Clusters):
        return _clusters(panel)
    if isinstance(panel, Logs):
        return _logs(panel)
    return _lanes(panel, across)


def _clusters(panel: Clusters) -> list[str]:
    parts = []
    for name, (left, top, width) in _AT.items():
        if name == "gateway" and not panel.gateway:
            continue
        fill = _WATER if name == panel.written else _PALE if name in ("source", "target") else "#fff"
        parts.append(f'<rect x="{left}" y="{top}" width="{width}" height="38" rx="6" fill="{fill}" stroke="{_INK}"/>')
        parts.append(_text(left + width / 2, top + 24, name))
    return parts + [line for flow in panel.flows for line in _flow(flow)]


def _flow(flow: Flow) -> list[str]:
    (x1, y1), (x2, y2) = _ends(flow.start, flow.end)
    kind = flow.kind or "ink"
    colour = {"ink": _INK, "mirror": _MIRROR, "still": _STILL}[kind]
    dash = ' stroke-dasharray="5 4"' if kind == "still" else ""
    line = (
        f'<path d="M{x1} {y1}L{x2} {y2}" stroke="{colour}" stroke-width="2.2" fill="none"{dash} '
        f'marker-end="url(#{kind})"/>'
    )
    if y1 == y2:
        return [line, _text((x1 + x2) / 2, y1 + 36, flow.word, colour=colour)]
    if x1 == x2:
        return [line, _text(x1 + 10, (y1 + y2) / 2 + 5, flow.word, colour=colour, anchor="start")]
    anchor, shift = ("end", -12) if x2 < x1 else ("start", 12)
    return [line, _text((x1 + x2) / 2 + shift, (y1 + y2) / 2 + 2, flow.word, colour=colour, anchor=anchor)]


def _ends(start: str, end: str) -> tuple[tuple[float, float], tuple[float, float]]:
    left, top, width = _AT[start]
    to_left, to_top, to_width = _AT[end]
    if top == to_top:
        return ((left + width, top + 19), (to_left - 3, top + 19)) if left < to_left else (
            (left, top + 19), (to_left + to_width + 3, top + 19)
        )  # fmt: skip
    towards = left + width / 2 + (0 if left == to_left else (-30 if to_left < left else 30))
    return (towards, top + 38), (to_left + to_width / 2, to_top - 3)


def _logs(panel: Logs) -> list[str]:
    parts = [_text(14, 82, "source", anchor="start"), _text(14, 182, "target", anchor="start")]
    cell, first = 33, 74
    for top, row in ((60, panel.source), (160, panel.target)):
        for index, offset in enumerate(row):
            left = first + index * cell
            fill = _WATER if offset is not None else "#fff"
            parts.append(
                f'<rect x="{left}" y="{top}" width="{cell - 4}" height="34" rx="4" fill="{fill}" stroke="{_INK}"'
                + (' stroke-dasharray="3 3"/>' if offset is None else "/>")
            )
            if offset is not None:
                parts.append(_text(left + (cell - 4) / 2, top + 22, offset))
    there = [index for index, offset in enumerate(panel.source) if offset is not None]
    for below, index in enumerate(there):
        x1, x2 = (first + place * cell + (cell - 4) / 2 for place in (index, below))
        parts.append(
            f'<path d="M{x1} 96L{x2} 157" stroke="{_MIRROR}" stroke-width="2" fill="none" marker-end="url(#mirror)"/>'
        )
    return parts


def _lanes(panel: Lanes, across: int) -> list[str]:
    left, width = 90, across - 110
    fills = {"ink": _WATER, "wait": "#fbe3d2", "mirror": "#f2c7a8", "still": "#eef2f5"}
    parts = []
    for at, word in panel.marks:
        x = left + width * at / 100
        parts.append(f'<path d="M{x:.0f} 58V238" stroke="{_INK}" stroke-dasharray="4 4" fill="none"/>')
        parts.append(_text(x, 54, word, bold=True))
    for row, (name, spans) in enumerate(panel.lanes):
        top = _TOP + 20 + row * 44
        parts.append(_text(left - 12, top + 22, name, anchor="end"))
        for start, end, kind, word in spans:
            x, length = left + width * start / 100, width * (end - start) / 100
            parts.append(
                f'<rect x="{x:.0f}" y="{top}" width="{length:.0f}" height="34" fill="{fills[kind]}" stroke="#fff"/>'
            )
            parts.append(_text(x + length / 2, top + 22, word))
    return parts


def _head(kind: str, colour: str) -> str:
    return (
        f'<marker id="{kind}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 10 5 0 10z" fill="{colour}"/></marker>'
    )


def _text(
    x: float, y: float, words: str, *, size: int = 14, bold: bool = False, colour: str = _INK, anchor: str = "middle"
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"{weight}>'
        f"{escape(words)}</text>"
    )


def main() -> None:
    """Draw them all."""
    for name in PICTURES:
        path = FOLDER / f"{name}.svg"
        path.write_text(drawn(name), encoding="utf-8")
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
