"""Somebody writes to the source whom nobody has told of the cutover, while the topic is mirrored back. Pure.

The source's log is then no copy any more, and its mirror cannot go on: it may end FAILED, with TARGET_DIVERGED, at its
next append there, and for no other reason. Nothing is wrong for whoever writes by the gateways: those records are on
the target. What must hold instead: `describe` counts what was written, FAILED or not, and whoever asks for the way home
is refused beforehand, with the number and the partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gateway.state.records import MirrorError, MirrorRecord, MirrorState
from tests.simulation.judge.state import Logs

_REFUSED: Final = range(400, 500)


def ends_rightly(mirror: MirrorRecord, source: Logs, is_nobodys: Callable[[bytes | None], bool]) -> Mapping[int, int]:
    """A mirror that is FAILED is one since somebody wrote to the source beside it: partition -> his first record there.

    Nothing of any other one.
    """
    if (
        not mirror.is_reverse
        or mirror.state is not MirrorState.FAILED
        or mirror.error is not MirrorError.TARGET_DIVERGED
    ):
        return {}
    found: dict[int, int] = {}
    for index, stopped in enumerate(mirror.cutover.stopped_at):
        for record in source.records(mirror.source_topic, index, committed_only=True):
            if record.offset >= stopped and is_nobodys(record.value):
                found.setdefault(index, record.offset)
    return found


def untold(mirror: MirrorRecord, shown: Mapping[str, Any], left: Mapping[int, int]) -> Iterator[str]:
    """What `describe` keeps to itself of a mirror back that is FAILED. `left`: see `claims.left_on_source`.

    What the mirror back itself has appended behind them is its own.
    """
    if mirror.state is not MirrorState.FAILED or not mirror.is_reverse:
        return
    told = {int(index): records for index, records in (shown["records_after_cutover"] or {}).items()}
    for index, records in sorted(left.items()):
        if told.get(index) != records:
            yield f"{records} records were left on the source's partition {index}, and it tells of {told.get(index, 0)}"


def wrong_answer(mirror: MirrorRecord, left: Mapping[int, int], code: int, answer: Any) -> Iterator[str]:
    """What is wrong with the answer to whoever asks what an undo of a mirror back would do."""
    if not left or not mirror.is_reverse or code == 0:
        return
    said = str(answer.get("message", "")) if isinstance(answer, dict) else ""
    if code not in _REFUSED:
        yield f"it would go home, and {sum(left.values())} records are on the source alone"
        return
    wanted = (f"{sum(left.values())} records", *(f"{count} in partition {index}" for index, count in left.items()))
    for words in wanted:
        if words not in said:
            yield f"it does not go home, and does not say that it is for {words}: {said}"
