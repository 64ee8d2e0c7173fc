"""How results are printed: a table for people, JSON or YAML exactly as the API answered.

What of a table fits a terminal, `rules/layout.py` says. In a pipe nothing is cut off, and each row is one line. Every
command named `list` or `candidates` has `-o wide|name`, `--columns` and `--sort`, without naming them: `ApiTyper` in
`connection.py` adds them, and `viewed` is where they are kept while the command runs.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from enum import StrEnum
from typing import Annotated, Any, Final, NoReturn

import typer
import yaml
from rich.console import Console
from rich.text import Text

from gateway.cli.rules.layout import STAYS as STAYS
from gateway.cli.rules.layout import BadColumn, Column, Shape, View, laid_out, wrapped
from gateway.cli.rules.layout import Sorted as Sorted
from gateway.telemetry.printable import printable

LISTS: Final = ("list", "candidates")
_PIPE: Final = 1_000_000  # rich wants a number
_USAGE: Final = 2
_VIEW: ContextVar[View] = ContextVar("_VIEW", default=View())  # noqa: B039 - it is frozen


class Output(StrEnum):
    """Formats of `-o`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class ListOutput(StrEnum):
    """Formats of `-o` where a list is shown."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


Format = Annotated[Output, typer.Option("-o", "--output", help="table, json or yaml.")]
VIEW_OPTIONS: Final[Mapping[str, Any]] = {
    "output": Annotated[
        ListOutput,
        typer.Option("-o", "--output", help="table, wide (every column), name (one a line), json or yaml."),
    ],
    "columns": Annotated[
        str, typer.Option("--columns", metavar="A,B", help="These columns, in this order; `-o wide` shows them all.")
    ],
    "sort": Annotated[str, typer.Option("--sort", metavar="COLUMN", help="By this column; -COLUMN: downwards.")],
}
VIEW_DEFAULTS: Final[Mapping[str, Any]] = {"output": ListOutput.TABLE, "columns": "", "sort": ""}


@contextlib.contextmanager
def viewed(output: ListOutput, columns: str, sort: str) -> Iterator[Output]:
    """While a list is shown as these options say; gives the format that the command itself knows. Ends the command with
    2 when they do not go together."""
    is_table = output not in (ListOutput.JSON, ListOutput.YAML)
    if (sort and not is_table) or (columns and output not in (ListOutput.TABLE, ListOutput.WIDE)):
        _refuse(f"--columns and --sort are of tables: they go without -o {output}")
    names = tuple(name for one in columns.split(",") if (name := one.strip()))
    before = _VIEW.set(View(shape=Shape(output.value) if is_table else Shape.TABLE, columns=names, sort=sort.strip()))
    try:
        yield Output.TABLE if is_table else Output(output.value)
    finally:
        _VIEW.reset(before)


def console(*, stderr: bool = False) -> Console:
    """A console on stdout (or stderr), wide when it is not a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else _PIPE, highlight=False)


def terminal_width() -> int | None:
    """Of stdout; None in a pipe."""
    return console().width if sys.stdout.isatty() else None


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


def col(title: str, rank: int = STAYS, *, wide: bool = False, note: bool = False) -> Column:
    """A column of a table. A title that ends in '#' is of numbers, without the '#'. `rank`: how soon it leaves when
    there is no room, `STAYS` for never. `wide`, `note`: see `Column`."""
    return Column(title.removesuffix("#"), rank, title.endswith("#"), wide, note)


def listing(
    columns: Sequence[Column],
    rows: Iterable[Sequence[object]],
    *,
    empty: str = "",
    label: int = 1,
    style: Callable[[int], str] = lambda _: "",
) -> None:
    """Print what a command is there to list, as its options say. `style`: of a row, by its number. See `laid_out`."""
    _print(columns, rows, _VIEW.get(), label, style, empty, "-o wide")


def table(
    columns: Sequence[Column],
    rows: Iterable[Sequence[object]],
    *,
    empty: str = "",
    label: int = 1,
    style: Callable[[int], str] = lambda _: "",
) -> None:
    """As `listing`, beside what a command is there to list: the options of a list do not count."""
    _print(columns, rows, View(), label, style, empty, "-o json has them")


def _print(
    columns: Sequence[Column],
    rows: Iterable[Sequence[object]],
    view: View,
    label: int,
    style: Callable[[int], str],
    empty: str,
    all_columns: str,
) -> None:
    width = terminal_width()
    try:
        layout = laid_out(columns, rows, view, width, label=label)
    except BadColumn as exc:
        _refuse(str(exc))
    if not layout.body and (empty or view.shape is Shape.NAME):
        typer.echo(empty, err=view.shape is Shape.NAME)
        return
    if layout.head:
        line(layout.head, "bold")
    for number, text in zip(layout.row_of, layout.body, strict=True):
        line(text, style(number))
    if layout.left_out:
        for text in wrapped(f"columns left out: {', '.join(layout.left_out)}; {all_columns}", width):
            line(text, "dim")
    if layout.notes:
        typer.echo("")
        for text in layout.notes:
            line(text, "")


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Print name and value pairs, one a line; empty values are left out."""
    said = [(name, printable(str(value))) for name, value in pairs if value not in ("", None)]
    widest, width = max((len(name) for name, _ in said), default=0), terminal_width()
    indent = " " * (widest + 2)
    for name, value in said:
        first, *more = wrapped(f"{name:<{widest}}  {value}", width, indent)
        text = Text(first)
        text.stylize("bold", 0, len(name))
        console().print(text, soft_wrap=True)
        for words in more:
            line(words, "")


def _refuse(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(_USAGE)


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
