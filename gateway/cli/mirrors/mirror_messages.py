"""`lockgate mirror messages`: records of both clusters side by side."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from gateway.cli.api import DEFAULT_URL, Url, ask
from gateway.cli.commands import ApiTyper
from gateway.cli.mirrors.mirror_common import Link, Topic, mirror_path
from gateway.cli.output import Format, Output, col, dump, listing
from gateway.kafka.logs.log_excerpt import MOST_BYTES, MOST_RECORDS


def register(app: ApiTyper) -> None:
    """Add the command to those of mirrors."""
    app.command("messages")(messages)


def messages(
    topic: Topic,
    link: Link,
    partition: Annotated[int, typer.Option("--partition", min=0, help="Partition.")] = 0,
    offset: Annotated[
        int | None,
        typer.Option("--offset", min=0, help="An offset on the source, to begin with; else the last records there."),
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, max=MOST_RECORDS, help="Records at most.")] = 10,
    most_bytes: Annotated[
        int, typer.Option("--max-bytes", min=0, max=MOST_BYTES, help="Bytes shown of each key and value.")
    ] = 64,
    output: Format = Output.TABLE,
    url: Url = DEFAULT_URL,
) -> None:
    """Show records of a mirror topic beside those of its source topic. Takes the role admin; nothing is changed."""
    path = f"{mirror_path(link, topic)}/partitions/{partition}/messages"
    query = {"count": str(count), "max_bytes": str(most_bytes)} | ({} if offset is None else {"offset": str(offset)})
    found = ask(url, lambda api: api.get(path, query))
    if output is not Output.TABLE:
        dump(found, output)
        return
    for side in ("source", "target"):
        there = found[f"{side}_range"]
        typer.echo(f"{side}: offsets {there['log_start']} to {there['log_end']} (not in it)", err=True)
    listing(
        [col("Cluster"), col("Offset#"), col("Time", 1), col("Key"), col("Value"), col("Equal")],
        (row for pair in found["data"] for row in _rows(pair)),
        empty=f"no record of partition {partition} there",
        label=0,
    )


def _rows(pair: dict[str, Any]) -> list[list[object]]:
    """Two lines of a table, the source's first."""
    equal = "yes" if pair["is_equal"] else "NO" if pair["source"] and pair["target"] else "one side"
    return [_row(side, pair[side], equal) for side in ("source", "target") if pair[side]]


def _row(side: str, record: dict[str, Any], equal: str) -> list[object]:
    at = datetime.fromtimestamp(record["timestamp_ms"] / 1000, UTC).isoformat(timespec="milliseconds")
    value = f"({record['note']})" if record["note"] else _shown(record["value"])
    return [side, record["offset"], at, _shown(record["key"]), value, equal]


def _shown(content: dict[str, Any] | None) -> str:
    """Text as it is, other bytes as hex, with the size where it was cut."""
    if content is None:
        return "null"
    text = content["text"] if content["encoding"] == "utf-8" else f"0x{content['text']}"
    shown = len(content["text"].encode()) if content["encoding"] == "utf-8" else len(content["text"]) // 2
    return text if shown >= content["size"] else f"{text}… ({content['size']} bytes)"
