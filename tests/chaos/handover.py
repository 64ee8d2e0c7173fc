"""How long partitions were not mirrored around the end of a gateway, seen from outside.

A reader on the target tells when each record came there, its producer when it was acknowledged by the source. Where
mirroring stops, records wait: the longest wait of a partition's records around the end of a gateway is its hand-over.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tests.chaos.plan import AFTER_S, APART_S

SOURCE: Final = "source"
ENDS: Final = ("gateway-kill", "gateway-restart", "rolling-restart")
WINDOW_NS: Final = 15_000_000_000


def waits(lines: Iterable[str], reader: str) -> dict[str, list[tuple[int, int]]]:
    """Key -> (when acknowledged, how long until `reader` had it), in ns, of records that were acknowledged first.

    Only of those that the source acknowledged: what is written on the target is there without a mirror.
    """
    home: dict[str, str] = {}
    acknowledged: dict[tuple[str, Any], int] = {}
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for line in lines:
        op = json.loads(line)
        if op["f"] == "cutover":
            home |= dict.fromkeys(op["value"]["keys"], op["value"]["to"] if op["type"] == "ok" else "")
        elif op["type"] == "ok" and op["f"] == "send":
            for _, key, (_, value) in op["value"]:
                if home.get(key, SOURCE) == SOURCE:
                    acknowledged[key, value] = op["time"]
        elif op["type"] == "ok" and op["f"] == "poll" and op["process"].startswith(reader):
            for key, records in op["value"][0][1].items():
                for _, value in records:
                    at = acknowledged.pop((key, value), None)  # once: a reader that is started anew reads it again
                    if at is not None:
                        found[key].append((at, op["time"] - at))
    return found


def handovers(
    waited: Mapping[str, Sequence[tuple[int, int]]], faults: Sequence[Mapping[str, Any]], began_ns: int
) -> list[float]:
    """Milliseconds, one per partition and end of a gateway that no other fault overlaps, or comes shortly before."""
    found = []
    for fault in faults:
        if fault["kind"] not in ENDS or any(_overlaps(fault, other) for other in faults if other is not fault):
            continue
        low = began_ns + int(fault["began_s"] * 1e9) - 1_000_000_000
        high = began_ns + int(fault["ended_s"] * 1e9) + 1_000_000_000
        for pairs in waited.values():
            near = [wait for at, wait in pairs if low <= at <= high and wait < WINDOW_NS]
            if near:
                found.append(max(near) / 1e6)
    return found


def _overlaps(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(one["began_s"] - APART_S < other["ended_s"] and other["began_s"] < one["ended_s"] + AFTER_S)


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest rank; 0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
