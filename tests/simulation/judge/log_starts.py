"""Whether logs start where they are to: a copy's where its origin's does; one that clients write, where its owner said.
Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.state.records import MirrorMode, MirrorRecord, MirrorState
from tests.simulation.judge.state import Logs, side_of
from tests.simulation.recorder import SOURCE


def wrong_log_starts(mirror: MirrorRecord, source: Logs, target: Logs, partitions: int) -> Iterator[str]:
    """Of a mirror at rest whose offsets are the same on both clusters, a line for each partition that is wrong.

    `partitions`: how many both topics have.
    """
    if mirror.state is not MirrorState.ACTIVE or mirror.mode is not MirrorMode.PRESERVE or not mirror.readable:
        return
    for index in range(partitions):
        here, end, *_ = source.log_range(mirror.source_topic, index)
        there, copied, *_ = target.log_range(mirror.mirror_topic, index)
        origin, copy, copy_end = (here, there, copied) if side_of(mirror) == SOURCE else (there, here, end)
        if index < len(mirror.starts) and not mirror.is_reverse:
            origin = max(origin, mirror.starts[index].source_start)
        if copy != min(origin, copy_end):
            what = f"the copy of partition {index} starts at {copy}, and its origin at {origin}"
            yield f"{what}: {'records that the origin has are gone' if copy > origin else 'it did not follow'}"
