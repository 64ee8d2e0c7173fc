"""How a table fits a terminal, or a pipe. Pure.

Nothing is ever cut off. What decides (a name, a state, a lag) is in every table, whole, however narrow the terminal is;
the other columns leave when there is no room, those of the highest rank first, and a line under the table names them.
A name that leaves no room for the columns that stay has a line of its own above them. Errors and remedies are
sentences, so they are no cells: they are lines under the table, each after the name of its row.

In a pipe there is no width: every row is one line.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from rich.cells import cell_len

from gateway.close_names import did_you_mean
from gateway.telemetry.printable import printable

STAYS: Final = 0
"""The rank of columns that are in every table."""
_GAP: Final = "  "
_UNKNOWN: Final = ("", "?", "-")
_INDENT: Final = "  "


class BadColumn(ValueError):
    """`--columns` or `--sort` names a column that the table does not have: one line."""


@dataclass(frozen=True, slots=True)
class Column:
    """One of a table. `rank`: the higher, the sooner it leaves. `is_wide`: shown when it is asked for, by name or by
    `-o wide`. `is_note`: sentences, told under the table; a cell may hold several."""

    title: str
    rank: int = STAYS
    right: bool = False
    is_wide: bool = False
    is_note: bool = False

    @property
    def key(self) -> str:
        """By which `--columns` and `--sort` know it."""
        return _key(self.title)


@dataclass(frozen=True, slots=True)
class Sorted:
    """A cell that is sorted by something else than its text."""

    text: str
    by: float

    def __str__(self) -> str:
        return self.text


class Shape(StrEnum):
    """How much of a list is shown."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What was asked for. `columns`: their names, none for the usual ones. `sort`: a name, with '-' before it from the
    last to the first."""

    shape: Shape = Shape.TABLE
    columns: tuple[str, ...] = ()
    sort: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Lines to print. `row_of`: of each line of the body, which row it belongs to, as they were given."""

    head: str = ""
    body: tuple[str, ...] = ()
    row_of: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = field(default=())


def laid_out(
    columns: Sequence[Column], rows: Iterable[Sequence[Any]], view: View, width: int | None, *, label: int = 1
) -> Layout:
    """Of rows with a cell for each column.

    Args:
        width: of the terminal; None in a pipe.
        label: how many of the first columns name a row in the lines under the table.

    Raises:
        BadColumn: `view` names one that there is not.
    """
    table = [(number, list(row)) for number, row in enumerate(rows)]
    if view.sort:
        table = _in_order(columns, table, view.sort)
    if view.shape is Shape.NAME:
        names = tuple(_text(row[0]) for _, row in table)
        return Layout(body=names, row_of=tuple(number for number, _ in table))
    shown, left_out = _chosen(columns, table, view, width)
    is_bounded = width is not None and view.shape is Shape.TABLE and not view.columns
    lines = _Lines([columns[at] for at in shown], width if is_bounded else None)
    head, body, row_of = lines.drawn([(number, [_text(row[at]) for at in shown]) for number, row in table])
    notes = () if view.columns else _notes(columns, [row for _, row in table], label, width)
    return Layout(head=head, body=body, row_of=row_of, notes=notes, left_out=left_out)


def wrapped(text: str, width: int | None, indent: str = _INDENT) -> list[str]:
    """A sentence on lines of a terminal, broken between words only: names, and commands' options, stay whole."""
    if width is None or cell_len(text) <= width:
        return [text]
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )


def _chosen(
    columns: Sequence[Column], table: Sequence[tuple[int, list[Any]]], view: View, width: int | None
) -> tuple[list[int], tuple[str, ...]]:
    """The places of the columns that are shown, and the titles of those that had no room."""
    if view.columns:
        return [_place(columns, name, "--columns") for name in view.columns], ()
    if view.shape is Shape.WIDE:
        return [at for at, one in enumerate(columns) if not one.is_note], ()
    usual = [at for at, one in enumerate(columns) if not (one.is_note or one.is_wide)]
    shown = [at for at in usual if columns[at].rank == STAYS or any(_text(row[at]) for _, row in table)]
    if width is None:
        return shown, ()
    widths = {at: _widest(columns[at].title, (_text(row[at]) for _, row in table)) for at in shown}
    widths[shown[0]] = min(widths[shown[0]], _short(columns[shown[0]], width))
    left_out: list[int] = []
    for at in sorted(shown, key=lambda at: (-columns[at].rank, -at)):
        if columns[at].rank == STAYS or _together(widths.values()) <= width:
            break
        left_out.append(at)
        del widths[at]
    return [at for at in shown if at in widths], tuple(columns[at].title for at in sorted(left_out))


def _short(first: Column, width: int) -> int:
    """How wide a name may be at most to stand in one line with the rest: longer ones have a line of their own."""
    return max(cell_len(first.title), width // 2)


class _Lines:
    """Rows as lines. With a width, a first cell that leaves no room for the others has a line of its own."""

    def __init__(self, columns: Sequence[Column], width: int | None) -> None:
        self._columns = columns
        self._width = width

    def drawn(self, rows: list[tuple[int, list[str]]]) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
        """The heading, the lines, and of each line the number of its row."""
        widths = [
            _widest(one.title, (cells[at] for _, cells in rows if at or not self._width))
            for at, one in enumerate(self._columns)
        ]
        if self._width is not None:
            room = max(widths[0], self._width - _together(widths[1:]) - len(_GAP))
            widths[0] = max([widths[0], *(size for _, cells in rows if (size := cell_len(cells[0])) <= room)])
        body: list[str] = []
        row_of: list[int] = []
        for number, cells in rows:
            lines = self._row(cells, widths)
            body += lines
            row_of += [number] * len(lines)
        return self._line([one.title for one in self._columns], widths), tuple(body), tuple(row_of)

    def _row(self, cells: list[str], widths: list[int]) -> list[str]:
        if cell_len(cells[0]) <= widths[0]:
            return [self._line(cells, widths)]
        return [cells[0], self._line(["", *cells[1:]], widths)] if len(cells) > 1 else [cells[0]]

    def _line(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        padded = (
            " " * (width - cell_len(cell)) + cell if column.right else cell + " " * (width - cell_len(cell))
            for column, cell, width in zip(self._columns, cells, widths, strict=True)
        )
        return _GAP.join(padded).rstrip()


def _notes(columns: Sequence[Column], rows: Iterable[Sequence[Any]], label: int, width: int | None) -> tuple[str, ...]:
    """The sentences of each row: the first after the row's name, the others under it."""
    places = [at for at, one in enumerate(columns) if one.is_note]
    lines: list[str] = []
    for row in rows:
        said = [
            (f"{columns[at].title.lower()}: " if number else "") + text
            for number, at in enumerate(places)
            for text in _texts(row[at])
        ]
        if said:
            name = " ".join(part for part in map(_named, columns, row[:label]) if part)
            lines += wrapped(f"{name}: {said[0]}", width)
            for text in said[1:]:
                lines += wrapped(f"{_INDENT}{text}", width, _INDENT * 2)
    return tuple(lines)


def _named(column: Column, cell: Any) -> str:
    return f"{column.title.lower()} {cell}" if column.right else _text(cell)


def _in_order(columns: Sequence[Column], table: list[tuple[int, list[Any]]], sort: str) -> list[tuple[int, list[Any]]]:
    """Numbers as numbers; what is not known, last, whatever the direction."""
    at = _place(columns, sort.removeprefix("-"), "--sort")
    known = [one for one in table if _text(one[1][at]) not in _UNKNOWN]
    unknown = [one for one in table if _text(one[1][at]) in _UNKNOWN]
    return sorted(known, key=lambda one: _rank(one[1][at]), reverse=sort.startswith("-")) + unknown


def _rank(cell: Any) -> tuple[float, str]:
    if isinstance(cell, Sorted):
        return cell.by, ""
    text = _text(cell)
    try:
        return float(text), ""
    except ValueError:
        return float("inf"), text


def _place(columns: Sequence[Column], name: str, option: str) -> int:
    keys = [one.key for one in columns]
    if (key := _key(name)) in keys:
        return keys.index(key)
    raise BadColumn(f"{option}: there is no column '{name}'{did_you_mean(key, keys)}; there are {', '.join(keys)}")


def _key(title: str) -> str:
    return "-".join(title.lower().replace("_", " ").replace("-", " ").split())


def _texts(cell: Any) -> list[str]:
    each = cell if isinstance(cell, list | tuple) else [cell]
    return [printable(" ".join(str(one).split())) for one in each if one not in ("", None)]


def _text(cell: Any) -> str:
    if isinstance(cell, list | tuple):
        return "; ".join(_texts(cell))
    return "" if cell is None else printable(str(cell))


def _widest(title: str, cells: Iterable[str]) -> int:
    return max((cell_len(title), *map(cell_len, cells)))


def _together(widths: Iterable[int]) -> int:
    each = list(widths)
    return sum(each) + len(_GAP) * max(0, len(each) - 1)
