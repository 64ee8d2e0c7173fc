"""Bars as SVG: groups one below the other, a bar for each contestant, its value at its end. Pure: values in, text out.

Light, in a browser and on GitHub, on a white and on a dark page: the picture brings its own background. A spread is a
thin line over the bar, a bound a dashed one through its group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

from bench.stats import Spread

WIDTH: Final = 760
_LABELS: Final = 190
_VALUES: Final = 150
_BAR: Final = 16
_BETWEEN: Final = 14
_TOP: Final = 78
_BOTTOM: Final = 18
_PLOT: Final = WIDTH - _LABELS - _VALUES
_FONT: Final = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"

COLOURS: Final[Mapping[str, str]] = {
    "gateway": "#0969a8",
    "gateway_on": "#3d8bc2",
    "forwarded": "#8fc1e3",
    "mm2": "#8c959f",
    "mm2_tuned": "#c3cad1",
    "haproxy": "#c9721b",
    "haproxy_copy": "#e6b483",
    "direct": "#57606a",
    "kroxylicious": "#7d4fa3",
    "kafka_proxy": "#3f8f4f",
}
_OTHER: Final = "#0969a8"
_NAMES: Final[Mapping[str, str]] = {
    "gateway": "lockgate",
    "gateway_on": "lockgate, intercepting",
    "forwarded": "lockgate, forwarded",
    "mm2": "MirrorMaker 2",
    "mm2_tuned": "MirrorMaker 2, tuned",
    "haproxy": "HAProxy, spliced",
    "haproxy_copy": "HAProxy",
    "kafka_proxy": "kafka-proxy",
}


@dataclass(frozen=True, slots=True)
class Group:
    """Bars that belong together. `bars`: contestant -> what was measured; `bound`: where a dashed line stands."""

    label: str
    bars: Mapping[str, Spread]
    bound: float | None = None


def bars(title: str, unit: str, groups: Sequence[Group]) -> str:
    """The picture as SVG. `unit`: what the numbers are, and which way is better."""
    names = list(dict.fromkeys(name for group in groups for name in group.bars))
    most = max((spread.high for group in groups for spread in group.bars.values()), default=0.0)
    most = max(most, *(group.bound or 0.0 for group in groups)) or 1.0
    height = _TOP + _BOTTOM + sum(len(group.bars) * _BAR + _BETWEEN for group in groups)
    size = f"width='{WIDTH}' height='{height}'"
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' {size} role='img'>",
        f"<title>{escape(title)}</title>",
        f"<rect width='{WIDTH}' height='{height}' rx='6' fill='#ffffff' stroke='#d0d7de'/>",
        _text(16, 26, title, size=15, weight=600),
        _text(16, 44, unit, size=12, colour="#57606a"),
        *_legend(names),
    ]
    at = _TOP
    for group in groups:
        parts += _group(group, at, most)
        at += len(group.bars) * _BAR + _BETWEEN
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(names: Sequence[str]) -> list[str]:
    parts, at = list[str](), 16
    for name in names if len(names) > 1 else ():
        parts.append(f"<rect x='{at}' y='54' width='10' height='10' rx='2' fill='{COLOURS.get(name, _OTHER)}'/>")
        parts.append(_text(at + 14, 63, _shown(name), size=12))
        at += 26 + 7 * len(_shown(name))
    return parts


def _group(group: Group, top: int, most: float) -> list[str]:
    height = len(group.bars) * _BAR
    parts = [_text(_LABELS - 10, top + height / 2 + 4, group.label, size=12, anchor="end")]
    for number, (name, spread) in enumerate(group.bars.items()):
        y, length = top + number * _BAR, max(1.0, spread.median / most * _PLOT)
        colour = COLOURS.get(name, _OTHER)
        parts.append(
            f"<rect x='{_LABELS}' y='{y + 1}' width='{length:.1f}' height='{_BAR - 3}' rx='2' fill='{colour}'/>"
        )
        if spread.high > spread.low:
            low, high = (_LABELS + value / most * _PLOT for value in (spread.low, spread.high))
            middle = y + _BAR / 2 - 0.5
            parts.append(
                f"<path d='M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 3}v6M{high:.1f} {middle - 3}v6' "
                "stroke='#1f2328' stroke-width='1' fill='none'/>"
            )
        end = _LABELS + max(length, spread.high / most * _PLOT) + 6
        parts.append(_text(end, y + _BAR - 5, number_of(spread.median), size=11))
    if group.bound is not None:
        x = _LABELS + group.bound / most * _PLOT
        line = f"M{x:.1f} {top - 4}V{top + height + 4}"
        parts.append(f"<path d='{line}' stroke='#cf222e' stroke-dasharray='4 3' fill='none'/>")
    return parts


def number_of(value: float) -> str:
    """As short as it says something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _text(
    x: float, y: float, text: str, *, size: int, weight: int = 400, colour: str = "#1f2328", anchor: str = "start"
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' {_FONT} font-size='{size}' font-weight='{weight}' fill='{colour}' "
        f"text-anchor='{anchor}'>{escape(text)}</text>"
    )


def _shown(name: str) -> str:
    return _NAMES.get(name, name.replace("_", " "))
