"""How results are printed: a table for people, JSON or YAML exactly as the API answered."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.telemetry.printable import printable

_WIDE = 240  # in a pipe nothing is cut off


class Output(StrEnum):
    """Formats of `-o`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


Format = Annotated[Output, typer.Option("-o", "--output", help="table, json or yaml.")]


def console(*, stderr: bool = False) -> Console:
    """A console on stdout (or stderr), wide when it is not a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else _WIDE, highlight=False)


def dump(data: Any, output: Output) -> None:
    """Print as JSON or YAML."""
    if output is Output.JSON:
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        typer.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)


def line(words: str, style: str) -> None:
    """Print one line in a colour, where there are colours."""
    console().print(Text(printable(words), style=style), soft_wrap=True)


def and_more(count: int) -> None:
    """What of a list is not shown."""
    if count > 0:
        typer.echo(f"  and {count} more")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "") -> None:
    """Print rows under columns; a column whose name ends in '#' is right-aligned, without the '#'."""
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        right = column.endswith("#")
        shown.add_column(column.removesuffix("#"), justify="right" if right else "left", no_wrap=not right)
    for row in rows:
        shown.add_row(*(Text(printable(str(cell))) for cell in row))
    if shown.row_count or not empty:
        console().print(shown)
    else:
        typer.echo(empty)


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Print name and value pairs, one a line; empty values are left out."""
    shown = Table(box=None, show_header=False, pad_edge=False)
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column(overflow="fold")
    for name, value in pairs:
        if value not in ("", None):
            shown.add_row(Text(name), Text(printable(str(value))))
    console().print(shown)


def since(milliseconds: int) -> str:
    """A moment, in local time."""
    if not milliseconds:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(milliseconds / 1000))


def rate(bytes_per_s: float) -> str:
    """A throughput."""
    for unit in ("B/s", "KB/s", "MB/s"):
        if bytes_per_s < 1000:
            return f"{bytes_per_s:.0f} {unit}" if unit == "B/s" else f"{bytes_per_s:.1f} {unit}"
        bytes_per_s /= 1000
    return f"{bytes_per_s:.2f} GB/s"


def duration(seconds: float) -> str:
    """A time span, in its two largest units."""
    whole = round(seconds)
    for size, unit, smaller, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {name}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"
