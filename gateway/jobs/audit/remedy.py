"""What an audit lacks that was not told of the link: a mirror may translate offsets, and write schema ids anew. Pure.

Without a link offsets are taken to be equal on both clusters, or as a map from a file has them, and bytes to be equal.
A copy that is made otherwise has nothing wrong with it, and is DIFFERENT all the same: it cannot be told from one that
is wrong. But the logs have signs of it, and the verdict's line names them with what to give.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any, Final

from gateway.jobs.audit.evidence import SHOWN_BYTES
from gateway.jobs.audit.sums import Difference, SideSums, Sums
from gateway.state.producer_ids import mirror_of

_ID_BYTES: Final = 5
"""A zero, and the id of a schema: how values and keys begin that a serializer of a schema registry made."""


def remedy(sums: Sums, *, is_mapped: bool) -> str:
    """What to give to an audit without a link that found differences, and by which sign; "" where there is none.

    Args:
        is_mapped: an offset map was given, so offsets need not be equal.
    """
    if tags := _links(sums):
        return (
            f"a mirror wrote records of it ({tags}), which may translate offsets and schema ids: give --link, which "
            "compares through its maps"
        )
    if _differ_in_ids(sums.first):
        return "the first two differ in nothing but schema ids: give --link, which compares through its id map"
    left_out = _empty(sums.source) - _empty(sums.target)
    if left_out > 0 and not is_mapped:
        return (
            f"offsets were taken to be equal on both clusters, and the source has {left_out:,} more without a record: "
            "if they are translated, give --link or --map"
        )
    return ""


def _links(sums: Sums) -> str:
    """Those whose mirrors wrote to either log, by their tags: a reverse mirror writes to the source."""
    writers = [
        mirror_of(writer) for side in (sums.source, sums.target) for writer, count in side.writers.items() if count
    ]
    tags = sorted({writer.link_id for writer in writers if writer is not None})
    return f"link tag{'s' if len(tags) > 1 else ''} {', '.join(map(str, tags))}" if tags else ""


def _empty(side: SideSums) -> int:
    """Offsets of which a consumer sees nothing: a copy with translated offsets has none of them."""
    return side.markers + side.aborted + side.gaps


def _differ_in_ids(first: Difference | None) -> bool:
    """The first two records that differ do so in ids of schemas, and in nothing else that the report shows."""
    if first is None or first.source is None or first.target is None:
        return False
    here, there = _contents(first.source), _contents(first.target)
    return len(here) == len(there) and here != there and all(map(_same_but_for_id, here, there))


def _contents(record: dict[str, Any]) -> list[Any]:
    """Key, value, and names and values of headers."""
    return [record["key"], record["value"], *(part for header in record["headers"] or () for part in header)]


def _same_but_for_id(here: Any, there: Any) -> bool:
    if here == there:
        return True
    if not isinstance(here, dict) or not isinstance(there, dict) or here["bytes"] != there["bytes"]:
        return False
    a, b = b64decode(here["base64"]), b64decode(there["base64"])
    return here["bytes"] <= SHOWN_BYTES and a[:1] == b[:1] == b"\0" and a[_ID_BYTES:] == b[_ID_BYTES:]
