"""What may come of a topic whose owner goes on as if nobody migrated it, and what must hold instead. Pure.

| its owner | may then be | and not otherwise |
|---|---|---|
| adds partitions | | where it is written the topic has what he gave it; the mirror follows |
| alters configs | | see `configs.py`; what he alters while the topic changes sides may count, or what was before |
| deletes records | gone on both clusters | where he deleted them on the copy alone, the copy begins there |
| deletes the group | begin anew where nothing was carried over by then | its offsets elsewhere are as they were |
| deletes the origin | FAILED, SOURCE_TOPIC_MAY_BE_DELETED | nobody is told of a write behind that |
| deletes the copy | FAILED, TARGET_TOPIC_MAY_BE_DELETED | no record is lost |
| deletes what was promoted away from | as it was | it goes on where it is written |

A mirror that is FAILED says why. No other topic of the run is excused anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from gateway.state.records import MirrorError, MirrorRecord, MirrorState
from tests.simulation.judge.history import Write
from tests.simulation.judge.state import side_of
from tests.simulation.recorder import SOURCE, TARGET

_GONE: Final[Mapping[bool, MirrorError]] = {
    True: MirrorError.SOURCE_TOPIC_MAY_BE_DELETED,
    False: MirrorError.TARGET_TOPIC_MAY_BE_DELETED,
}
"""Of the topic that a mirror reads, and of the one that it writes."""
_ON_ITS_WAY_S: Final = 1.0
_NOT_THERE: Final = "does not exist any more"
"""What a failback says, beside INTERNAL_ERROR, that finds no topic that it could make a copy."""


def origin_of(mirror: MirrorRecord) -> str:
    """Where a mirror reads."""
    return TARGET if mirror.is_reverse else SOURCE


def has_settled(mirror: MirrorRecord | None, deleted: Collection[str]) -> bool:
    """Nothing more is to come of a topic that is deleted on these clusters."""
    if mirror is None or mirror.state in (MirrorState.FAILED, MirrorState.STOPPED):
        return True
    return not deleted


def wrong_end(mirror: MirrorRecord | None, deleted: Collection[str]) -> Iterator[str]:
    """What is wrong with the state of a mirror whose topic is deleted on these clusters, at rest."""
    if mirror is None or mirror.state is MirrorState.STOPPED or not deleted:
        return
    if mirror.state is not MirrorState.FAILED:
        yield f"it is {mirror.state}, and the topic is deleted on the {' and the '.join(sorted(deleted))}"
        return
    may_be = [_GONE[side == origin_of(mirror)] for side in deleted]
    if mirror.error is MirrorError.INTERNAL_ERROR and _NOT_THERE in mirror.error_message:
        return
    if mirror.error not in may_be:
        yield f"it is FAILED with {mirror.error}, and not with {' or '.join(may_be)}: {mirror.error_message}"
    if not mirror.error_message:
        yield "it is FAILED, and does not say why"


def wrong_partitions(mirror: MirrorRecord, owned: Mapping[str, int], now: Mapping[str, int]) -> Iterator[str]:
    """Of a topic at rest: nobody but its owner gives it partitions where it is written; a copy has as many at least.

    On the source they may be the target's, of the moment of the way home.

    Args:
        owned: by cluster, how many its owner gave it, or its origin's owner while it was a copy.
        now: how many it has.
    """
    home = side_of(mirror)
    copy = TARGET if home == SOURCE else SOURCE
    most = owned[home] if home == TARGET else max(owned.values())
    if home in now and not owned[home] <= now[home] <= most:
        yield f"it has {now[home]} partitions on the {home}, which clients write, and its owner gave it {owned[home]}"
    if mirror.state is MirrorState.ACTIVE and len(now) > 1:
        if now[copy] < now[home]:
            yield f"its copy on the {copy} has {now[copy]} partitions, and {now[home]} are to be mirrored"
        if len(mirror.starts) != now[home]:
            yield f"its mirror has {len(mirror.starts)} partitions, and {now[home]} are to be mirrored"


def answered_after(
    writes: Mapping[str, Write], deleted_at: float, elsewhere: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Writes of a partition whose topic was deleted where it was written: what became of them behind that is wrong.

    Yields the class of the finding, and what it is. `elsewhere`: the records of the other cluster's log.
    """
    there = set(elsewhere)
    for text, write in sorted(writes.items()):
        if write.invoked <= deleted_at + _ON_ITS_WAY_S:
            continue
        if write.end == "ok":
            yield "lost", f"{text!r} was acknowledged behind the deletion of its topic"
        elif text in there:
            yield "split_writes", f"{text!r} was written behind the deletion of its topic, on the other cluster"
