"""The picture of what was discovered, as one SVG without anything from outside. Pure.

Each set is a card; inside, transactional ids stand left, topics in the middle, groups right, and a line says what ties
them (its reason is its tooltip). Cards follow one another in the order in which the sets can go. Lines between cards
would only be spaghetti: what a set waits for is written on its card.

The layout is three columns per card. Each column is put in order by where its neighbours stand (the barycentre rule of
layered drawings, Sugiyama 1981), which takes out most crossings of so small graphs.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

from gateway.migration.rules.sets import Discovered, MoveSet, SetKind
from gateway.migration.rules.ties import Node, Tie, TieKind

CARDS: Final = 300
ROWS: Final = 40
"""Cards of a picture, and nodes in a column; the rest is in the file."""

_COLUMNS: Final = (TieKind.TRANSACTIONAL_ID, TieKind.TOPIC, TieKind.GROUP)
_TITLES: Final[Mapping[TieKind, str]] = {
    TieKind.TRANSACTIONAL_ID: "transactional ids",
    TieKind.TOPIC: "topics",
    TieKind.GROUP: "groups",
}
_WIDTH: Final = 980
_NODE_W: Final = 232
_NODE_H: Final = 26
_STEP: Final = 34
_LEFT: Final = (24, 374, 724)
_HEAD: Final = 74
_SIGNS: Final = 26  # of a name that fit a node
_WORDS: Final[Mapping[SetKind, str]] = {
    SetKind.STREAMS: "Kafka Streams: moves as one",
    SetKind.TRANSACTIONAL: "transactions: moves as one",
    SetKind.CONNECT: "Kafka Connect: moves as one",
    SetKind.PLAIN: "nothing binds it",
}
_STYLE: Final = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1b1f24; }
.h { font: 600 15px system-ui, sans-serif; } .s { font: 12px system-ui, sans-serif; fill: #57606a; }
.t { font: 600 20px system-ui, sans-serif; }
.page { fill: #ffffff; } .card { fill: #f6f8fa; stroke: #d0d7de; } .BINDS { stroke: #0a5cad; stroke-width: 1.5; }
.topic { fill: #ffffff; stroke: #57606a; } .group { fill: #e6f4ea; stroke: #1a7f37; }
.transactional_id { fill: #fff4dc; stroke: #9a6700; }
.tie { fill: none; stroke: #0a5cad; stroke-width: 1.6; } .READS { stroke: #8c959f; stroke-width: 1.1; }
.likely { stroke-dasharray: 5 3; }
@media (prefers-color-scheme: dark) {
 .page { fill: #0d1117; } text { fill: #e6edf3; } .s { fill: #9198a1; } .card { fill: #151b23; stroke: #3d444d; }
 .BINDS { stroke: #4493f8; } .topic { fill: #0d1117; stroke: #9198a1; } .group { fill: #12261e; stroke: #3fb950; }
 .transactional_id { fill: #272115; stroke: #d29922; } .tie { stroke: #4493f8; } .READS { stroke: #656c76; }
}
"""


class _Place(NamedTuple):
    x: int
    y: int


def svg(found: Discovered) -> str:
    """The picture."""
    parts, y = [], 96
    elsewhere = _read_elsewhere(found.across)
    for one in found.sets[:CARDS]:
        reads = sorted({topic for group in one.groups for topic in elsewhere.get(group, ())})
        card, height = _card(one, y, reads)
        parts.append(card)
        y += height + 18
    if len(found.sets) > CARDS:
        parts.append(f'<text class="s" x="20" y="{y + 6}">and {len(found.sets) - CARDS} more sets: see the file</text>')
        y += 26
    parts.append(_not_known(found, y))
    height = y + 40 + 17 * sum(len(lines) for lines in _wrapped(found))
    binding = sum(one.binds for one in found.sets)
    said = f"{len(found.sets)} sets, {binding} of which must move as one"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="What moves together: {said}"><style>{_STYLE}</style>'
        f'<rect class="page" width="{_WIDTH}" height="{height}"/>'
        f'<text class="t" x="20" y="34">What moves together</text>'
        f'<text class="s" x="20" y="56">source cluster {escape(found.cluster_id or "unknown")}: {said}. '
        "From top to bottom: an order in which they can go.</text>"
        f"{_legend()}{''.join(parts)}</svg>\n"
    )


def _legend() -> str:
    return (
        '<path class="tie" d="M20 76h34"/><text class="s" x="60" y="80">binds: changes sides together</text>'
        '<path class="tie likely" d="M250 76h34"/><text class="s" x="290" y="80">likely, by a name or a hash</text>'
        '<path class="tie READS" d="M470 76h34"/><text class="s" x="510" y="80">a group reads a topic</text>'
    )


def _read_elsewhere(across: Iterable[Tie]) -> Mapping[str, set[str]]:
    """Group -> topics of other sets that it reads."""
    found: dict[str, set[str]] = {}
    for tie in across:
        if tie.one.kind is TieKind.GROUP and tie.other.kind is TieKind.TOPIC:
            found.setdefault(tie.one.name, set()).add(tie.other.name)
    return found


def _card(one: MoveSet, top: int, elsewhere: Sequence[str]) -> tuple[str, int]:
    columns = _columns(one)
    rows = max((len(names) for names in columns.values()), default=0)
    height = _HEAD + max(rows, 1) * _STEP + 10
    places = {
        node: _Place(_LEFT[index], top + _HEAD + row * _STEP)
        for index, kind in enumerate(_COLUMNS)
        for row, node in enumerate(columns[kind])
    }
    more = [
        f"{hidden} more {_TITLES[kind]}"
        for kind, names in _all(one).items()
        if (hidden := len(names) - len(columns[kind])) > 0
    ]
    after = [f"goes after {', '.join(one.after)}"] if one.after else []
    reads = [f"reads {', '.join(elsewhere)} of other sets"] if elsewhere else []
    said = [_WORDS[one.kind], *after, *reads, *more]
    binds = " BINDS" if one.binds else ""
    titles = "".join(
        f'<text class="s" x="{_LEFT[index]}" y="{top + 62}">{_TITLES[kind]}</text>'
        for index, kind in enumerate(_COLUMNS)
        if columns[kind]
    )
    drawn = (
        f'<g><rect class="card{binds}" x="10" y="{top}" width="{_WIDTH - 20}" height="{height}" rx="8"/>'
        f'<text class="h" x="24" y="{top + 24}">{escape(_short(one.name, 60))}</text>'
        f'<text class="s" x="24" y="{top + 42}">{escape(_short("; ".join(said), 150))}</text>{titles}'
        f"{''.join(_lines(one.ties, places))}{''.join(_node(node, place) for node, place in places.items())}</g>"
    )
    return drawn, height


def _all(one: MoveSet) -> Mapping[TieKind, Sequence[str]]:
    return {TieKind.TRANSACTIONAL_ID: one.transactional_ids, TieKind.TOPIC: one.topics, TieKind.GROUP: one.groups}


def _columns(one: MoveSet) -> Mapping[TieKind, list[Node]]:
    """The nodes of each column, in the order in which they are drawn."""
    columns = {kind: [Node(kind, name) for name in names] for kind, names in _all(one).items()}
    for kind in (*_COLUMNS, *_COLUMNS[-2::-1]):
        columns[kind] = _by_neighbours(columns, kind, one.ties)
    return {kind: nodes[:ROWS] for kind, nodes in columns.items()}


def _by_neighbours(columns: Mapping[TieKind, list[Node]], kind: TieKind, ties: Iterable[Tie]) -> list[Node]:
    rows = {node: row for other, nodes in columns.items() if other is not kind for row, node in enumerate(nodes)}
    near: dict[Node, list[int]] = {}
    for tie in ties:
        for node, other in ((tie.one, tie.other), (tie.other, tie.one)):
            if node.kind is kind and other in rows:
                near.setdefault(node, []).append(rows[other])
    own = {node: row for row, node in enumerate(columns[kind])}
    return sorted(columns[kind], key=lambda node: (_mean(near.get(node, [own[node]])), node.name))


def _mean(rows: Sequence[int]) -> float:
    return sum(rows) / len(rows)


def _lines(ties: Iterable[Tie], places: Mapping[Node, _Place]) -> Iterable[str]:
    for tie in sorted(ties, key=lambda tie: tie.binds):
        if tie.one not in places or tie.other not in places:
            continue
        start, end = sorted((places[tie.one], places[tie.other]), key=lambda place: place.x)
        x1, y1, y2 = start.x + _NODE_W, start.y + _NODE_H // 2, end.y + _NODE_H // 2
        if start.x == end.x:  # of one kind: a bow on its right side
            path = f"M{x1} {y1}C{x1 + 40} {y1} {x1 + 40} {y2} {x1} {y2}"
        else:
            bend = (end.x - x1) // 2
            path = f"M{x1} {y1}C{x1 + bend} {y1} {end.x - bend} {y2} {end.x} {y2}"
        kinds = f"tie{'' if tie.binds else ' READS'}{' likely' if tie.likely else ''}"
        words = f"{tie.one.kind} {tie.one.name}, {tie.other.kind} {tie.other.name}: {tie.reason}"
        yield f'<path class="{kinds}" d="{path}"><title>{escape(words)}</title></path>'


def _node(node: Node, place: _Place) -> str:
    return (
        f'<g><rect class="{node.kind}" x="{place.x}" y="{place.y}" width="{_NODE_W}" height="{_NODE_H}" rx="5"/>'
        f'<text x="{place.x + 8}" y="{place.y + 17}">{escape(_short(node.name, _SIGNS))}</text>'
        f"<title>{escape(node.name)}</title></g>"
    )


def _wrapped(found: Discovered) -> list[list[str]]:
    return [textwrap.wrap(f"{one.what}. To tell it: {one.how_to_tell}.", 138) for one in found.not_known]


def _not_known(found: Discovered, top: int) -> str:
    lines, y = [f'<text class="h" x="24" y="{top + 16}">Not known</text>'], top + 36
    for one in _wrapped(found):
        for index, line in enumerate(one):
            sign = "• " if index == 0 else "  "
            lines.append(f'<text class="s" x="{24 if index == 0 else 34}" y="{y}">{sign.strip()} {escape(line)}</text>')
            y += 17
    return "".join(lines)


def _short(text: str, signs: int) -> str:
    """With its middle left out where it is too long: what tells names apart stands at their ends."""
    if len(text) <= signs:
        return text
    half = (signs - 1) // 2
    return f"{text[: signs - 1 - half]}…{text[-half:]}"
