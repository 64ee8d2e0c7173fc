"""Records that a client library sent again under a new producer epoch, as the brokers' own files show.

librdkafka waits for what is in flight to a leader that has changed before it sends to the next one. A request that
comes back at that moment with NOT_LEADER_OR_FOLLOWER is overtaken by the one behind it; the new leader refuses that one
(OUT_OF_ORDER_SEQUENCE_NUMBER), and the producer begins a new epoch, in which it sends again what it has no answer for.
Some of that is in the log already, and no broker can tell. So it does without a gateway: of five producers on a cluster
behind 50 ± 50 ms one began a new epoch while leaders moved 37 times. A gateway that appends a batch twice leaves both
under one epoch: such a record is a duplicate.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from protocol.batch.header import BatchHeader, iter_batches

Resent = dict[str, list[str]]
"""Key -> records."""


def resent(lines: Iterable[str], data: Mapping[str, Path]) -> Resent:
    """Of all that a final log has more than once, what is there under ascending epochs of one producer.

    Args:
        lines: a history, with the final logs.
        data: side -> the data folder of a broker that has every partition.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        op = json.loads(line) if '"log"' in line else {}
        if op.get("f") != "log":
            continue
        side, key = op["value"]["side"], op["value"]["key"]
        repeated = _repeated(op["value"]["records"])
        headers = _headers(data[side] / key.replace("/", "-")) if repeated else []
        found[key].update(value for value, offsets in repeated.items() if _new_epochs(headers, offsets))
    return {key: sorted(values) for key, values in found.items() if values}


def as_line(found: Resent) -> str:
    """For the history, right behind its first line."""
    return json.dumps({"type": "ok", "process": "control", "f": "resent", "time": 0, "value": found}) + "\n"


def _repeated(records: Iterable[Sequence[object]]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for offset, value in records:
        places[str(value)].append(int(str(offset)))
    return {value: offsets for value, offsets in places.items() if len(offsets) > 1}


def _headers(partition: Path) -> list[BatchHeader]:
    return [
        header
        for segment in sorted(partition.glob("*.log"))
        for header, _ in iter_batches(memoryview(segment.read_bytes()))
    ]


def _new_epochs(headers: Sequence[BatchHeader], offsets: Sequence[int]) -> bool:
    stamps = [
        (h.producer_id, h.producer_epoch) for at in offsets for h in headers if h.base_offset <= at <= h.last_offset
    ]
    return len(stamps) == len(offsets) and all(
        one[0] == other[0] >= 0 and one[1] < other[1] for one, other in pairwise(stamps)
    )
