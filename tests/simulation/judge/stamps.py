"""Whether what clients write behind a cutover has the time stamps that their topic is to have: the broker's with
LogAppendTime, their own with CreateTime. Pure.

What the mirror has copied is compared record by record elsewhere (`judge/logs.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gateway.state.records import MirrorRecord, MirrorState
from tests.simulation.judge.state import side_of
from tests.simulation.recorder import SOURCE

_LOG_APPEND_TIME: Final = "LogAppendTime"
_WRITTEN: Final = (MirrorState.ACTIVE, MirrorState.PAUSED, MirrorState.STOPPED)


def wrong_stamps(mirror: MirrorRecord, stamps: str, source: Any, target: Any) -> Iterator[str]:
    """A line for each partition with batches that are stamped otherwise.

    Args:
        stamps: `message.timestamp.type` as the owner has it, all the time.
        source, target: the cluster models.
    """
    if mirror.state not in _WRITTEN:
        return
    home = side_of(mirror)
    cluster, topic = (source, mirror.source_topic) if home == SOURCE else (target, mirror.mirror_topic)
    for index, cut in enumerate(_cuts(mirror, home)):
        if cluster.lookup(topic, index) is None:
            continue
        wrong = [
            batch.header
            for batch in cluster.partition(topic, index).best.log.batches
            if batch.header.base_offset >= cut and not batch.header.is_control
            if batch.header.is_log_append_time is not (stamps == _LOG_APPEND_TIME)
        ]
        if wrong:
            count = sum(header.count for header in wrong)
            what = (
                f"{count} records of partition {index} behind the cutover at {cut} on the {home} do not have {stamps}"
            )
            yield f"{what}, from {wrong[0].base_offset} on"


def _cuts(mirror: MirrorRecord, home: str) -> tuple[int, ...]:
    """By partition, from where on the written log has what clients have written since the last change of sides."""
    if home == SOURCE:
        return mirror.failback.handed_over_from if mirror.failback.epoch else ()
    return mirror.cutover.stopped_copy_at or mirror.cutover.stopped_at
