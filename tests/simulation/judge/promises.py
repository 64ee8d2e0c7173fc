"""What a gateway has said of the copy is never taken back: judged at each loss of a leader of the target.

A new leader that lacks what the one before had appended ends every doubt: its log end is all that there is. Up to that
moment `describe` may have told the copy's end and the position, by which `ack: both`, promotes and groups go; none of
these may lie beyond it. What had been acknowledged and was lost all the same (an unclean election) nobody can keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gateway.state.producer_ids import mirror_of
from gateway.state.records import MirrorMode
from tests.simulation.fleet.gateway_node import GatewayNode
from tests.simulation.judge.findings import Findings
from tests.simulation.kafka.logs.log import Batch
from tests.simulation.kafka.logs.partition import Partition


def judge_promises(
    gateways: Iterable[GatewayNode],
    partition: Partition,
    lost: Sequence[Batch],
    promised: int,
    findings: Findings,
    now: float,
    *,
    is_gapless: bool,
) -> None:
    """Compare what every gateway says of a partition with where its log ends now.

    Args:
        lost: the batches that the leader before had alone.
        promised: its high watermark: what is below it was acknowledged.
        is_gapless: the source has no markers and no offset gaps, so offsets are equal, whoever knows it yet.
    """
    end = lost[0].header.base_offset
    writer = mirror_of(lost[0].header.producer_id)
    if writer is None or writer.reverse or end < promised:
        return
    topic, index = partition.topic.name, partition.index
    told = [each for gateway in gateways if gateway.serves for each in _told(gateway, topic, index)]
    if not is_gapless or any(each.translates for each in told):  # the position is the source's offset
        told = [each for each in told if each.of_copy]
    for each in told:
        if each.offset > end:
            findings.add("lost", f"{topic}/{index}", f"{each.what} {each.offset}, and it ends at {end}", now)


class _Told(NamedTuple):
    """`of_copy`: an offset of the copy, else of the source, which is the same where nothing is translated."""

    what: str
    offset: int
    of_copy: bool
    translates: bool


def _told(gateway: GatewayNode, topic: str, index: int) -> Iterator[_Told]:
    engine, progress = gateway.gateway._peering.engine, gateway.gateway._progress
    for link_mirror in engine.link_mirrors():
        mirror = link_mirror.topics.get(topic)
        if mirror is None or mirror.record.is_reverse:
            continue
        runner = mirror.runners.get(index)
        translates = mirror.record.mode is not MirrorMode.PRESERVE or (runner is not None and runner.mirror.translates)
        for status in mirror.status([index]):
            yield _Told(f"{gateway.name} says that the copy ends at", status.target_end, True, translates)
        position = progress.position(topic, index)
        if position is not None:
            yield _Told(f"{gateway.name} says that it is mirrored to", position, False, translates)
