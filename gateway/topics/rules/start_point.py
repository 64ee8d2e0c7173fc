"""Where a mirror topic begins, as its operator says it at create: one text, which its record keeps.

`earliest`, `latest`, a time (ISO-8601, or milliseconds since the epoch), or offsets of the source topic by partition:
`0:120,1:98`. A partition that is not named there begins where the link says. '' is: as the link says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway.state import link_config

_OFFSETS = re.compile(r"\d{1,9}:\d{1,18}(,\d{1,9}:\d{1,18})*")
_SPEC = "mirror.start.offset.spec"


@dataclass(frozen=True, slots=True)
class StartPoint:
    """`timestamp`: as `state/link_config.py` has it, None where the link's counts. `offsets`: of some partitions."""

    timestamp: int | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)


def parse(text: str) -> StartPoint:
    """The start point of a text. Raises ValueError, with one line that names the text."""
    text = text.strip()
    if not text:
        return StartPoint()
    if not _OFFSETS.fullmatch(text):
        try:
            return StartPoint(link_config.parse({_SPEC: text}).start_timestamp)
        except link_config.LinkConfigError:
            raise ValueError(
                f"{text!r} is no start: give earliest, latest, an ISO-8601 time, milliseconds since the epoch, or "
                "offsets by partition, such as 0:120,1:98"
            ) from None
    pairs = [pair.partition(":") for pair in text.split(",")]
    offsets = {int(partition): int(offset) for partition, _, offset in pairs}
    if len(offsets) < len(pairs):
        raise ValueError(f"{text!r} names a partition twice")
    return StartPoint(offsets=offsets)


def text_of(offsets: Mapping[int, int]) -> str:
    """What `parse` makes these offsets of."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))


def why_out_of_range(topic: str, offsets: Mapping[int, int], ranges: Sequence[tuple[int, int]]) -> str:
    """Why a mirror cannot begin at these offsets of its source topic; '' when it can.

    Args:
        ranges: (log start, log end) of each partition. The end is one: the mirror begins with what is written next.
    """
    for partition, offset in sorted(offsets.items()):
        if partition >= len(ranges):
            return f"start: topic '{topic}' has no partition {partition}: it has {len(ranges)} on the source"
        first, end = ranges[partition]
        if not first <= offset <= end:
            return (
                f"start: offset {offset} of partition {partition} is out of range: topic '{topic}' has offsets {first} "
                f"to {end} there on the source (earliest is {first}, latest {end})"
            )
    return ""
