"""The sums of an audit in words: one line of each log's offsets, one of each side's records. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_OFFSETS: Final = (
    ("records", "records"),
    ("markers", "transaction markers"),
    ("aborted", "aborted"),
    ("gaps", "without a record"),
    ("deleted", "deleted meanwhile"),
)
_BEYOND: Final = {"source": ("before_start", "before the mirror's start"), "target": ("since_cutover", "written since")}

_NAMES: Final = {
    "key": "with another key",
    "value": "with another value",
    "headers": "with other headers",
    "timestamp": "with another timestamp",
    "target_retention": "below the target's log start",
    "source_retention": "below the source's log start",
    "compaction": "compacted away on the other side",
    "behind": "not mirrored yet",
    "left_behind": "left behind at the failover",
    "not_in_map": "not in the offset map",
    "key_gone": "of keys that the target may have deleted since the cutover",
    "undecided": "not looked up by key",
    "missing_on_target": "missing on the target",
    "missing_on_source": "missing on the source",
    "record_in_gap": "where the map says that there is none",
    "beyond_end": "beyond the end",
    "after_cutover": "written after the cutover",
    "before_start": "before the mirror's start",
}


def sum_lines(sums: Mapping[str, Any]) -> list[str]:
    """Of a partition's JSON in the report, or of its `totals`."""
    lines = []
    for side in ("source", "target"):
        parts = [f"{sums[side][name]:,} {text}" for name, text in _OFFSETS if name == "records" or sums[side][name]]
        name, text = _BEYOND[side]
        beside = f"; besides {sums[name]:,} {text}" if sums[name] else ""
        lines.append(f"{side} offsets: {sums[side]['offsets']:,} = {' + '.join(parts)}{beside}")
    for side in ("source", "target"):
        parts = [f"{sums['compared']:,} equal"]
        parts += [f"{count:,} {_NAMES[kind]}" for kind, count in sums["pairs"].items()]
        parts += [f"{count:,} {_NAMES[kind]}" for kind, count in sums[f"{side}_only"].items()]
        lines.append(f"{side} records: {sums[side]['records']:,} = {' + '.join(parts)}")
    return lines
