"""Records of mirror topics for tests, by the names of the state topic: `mirror_record(link=..., failback_epoch=1)`.

Their parts (cutover, failback) are put together by the codec. Of two lists that belong together one may be given alone:
then offsets are equal, but for a record that has as many of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from gateway.state.codec import mirror_of, values_of
from gateway.state.records import MirrorRecord, MirrorState, PartitionStart

_PAIRS = (("stopped_at", "stopped_copy_at"), ("handed_over_at", "handed_over_from"))


def mirror_record(**values: Any) -> MirrorRecord:
    """A record with these values; the others have their default."""
    return mirror_of(_both(values, {}))


@cache
def one_partition(topic: str, state: MirrorState, pause_epoch: int) -> MirrorRecord:
    """Of a topic with one partition, mirrored from the beginning: what exhaustive models ask for again and again."""
    return mirror_record(
        link="l",
        source_topic=topic,
        mirror_topic=topic,
        mirror_id=1,
        state=state,
        pause_epoch=pause_epoch,
        starts=(PartitionStart(0, 0),),
    )


def changed(record: MirrorRecord, **values: Any) -> MirrorRecord:
    """The record with these values instead of its own."""
    own = values_of(record)
    return mirror_of(own | _both(values, own))


def _both(values: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(values)
    for pair in _PAIRS:
        for one, other in (pair, pair[::-1]):
            if one in values and other not in values and len(own.get(other, ())) != len(values[one]):
                found[other] = values[one]
    return found
