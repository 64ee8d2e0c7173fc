"""Whether what `describe` says of a topic at rest is so: nobody left on the source, no record there that came by
nobody's mirror, none that a lost target would take along. Pure.

Only what sounds safe is held against the logs: a claim that is too careful costs somebody a look.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from gateway.state.producer_ids import mirror_producer_id
from gateway.state.records import MirrorRecord, MirrorState
from tests.simulation.judge.logs import Pair, common
from tests.simulation.judge.state import side_of
from tests.simulation.recorder import TARGET


def left_on_source(mirror: MirrorRecord, link_id: int, source: Any, count: int) -> dict[int, int]:
    """Partition -> records on the source behind the cutover that no mirror back has appended: somebody writes there.

    `count`: partitions of the source topic.
    """
    if side_of(mirror) != TARGET or not mirror.cutover.stopped_at:
        return {}
    back = {
        mirror_producer_id(link_id, mirror.mirror_id, epoch, reverse=True) for epoch in range(mirror.failback.epoch + 2)
    }
    found: dict[int, int] = {}
    for index in range(count):
        stopped = mirror.cutover.stopped_at[index] if index < len(mirror.cutover.stopped_at) else 0
        batches = source.partition(mirror.source_topic, index).best.log.batches
        found[index] = sum(
            batch.header.count
            for batch in batches
            if batch.header.base_offset >= stopped and not batch.header.is_control
            if batch.header.producer_id not in back
        )
    return {index: records for index, records in found.items() if records}


def wrong_claims(
    mirror: MirrorRecord,
    shown: Mapping[str, Any],
    pairs: Sequence[Pair],
    left: Mapping[int, int],
    readers: Collection[str],
) -> Iterator[str]:
    """A line for each thing that `describe` says and that is not so.

    Args:
        shown: its answer.
        pairs: both logs of each partition.
        left: what was found by `left_on_source`.
        readers: groups with members on the source that read the topic.
    """
    told = {int(index): records for index, records in (shown["records_after_cutover"] or {}).items()}
    is_failed = mirror.state in (MirrorState.FAILED, MirrorState.LINK_FAILED)
    if left and not is_failed and not any(mirror.cutover.not_mirrored):
        for index, records in sorted(left.items()):
            if not told.get(index, 0):
                yield f"{records} records were left on the source's partition {index}, and it tells of none"
    if told and not left and not any(mirror.cutover.not_mirrored) and mirror.state is MirrorState.STOPPED:
        yield f"it tells of records that were left on the source, {told}, and there are none"
    at_risk = (shown.get("undo") or {}).get("records_at_risk")
    alone = sum(len(pair.target) - common(pair) for pair in pairs)
    if mirror.is_reverse and at_risk == 0 and alone:
        yield f"0 records are said to be at risk, and the source lacks {alone}"
    clients = shown.get("clients_not_migrated")
    if clients is not None and clients["readers"] is not None:
        claimed = {one["group"] for one in clients["readers"]}
        for group in sorted(set(readers) - claimed):
            yield f"group {group} reads on the source, and it names no member of it"
        for group in sorted(claimed - set(readers)):
            yield f"group {group} is said to read on the source, and has no member there"
