"""A topic that the leader takes over for a while: what of it is not known yet is waited for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gateway.fleet.mirror_map import MirrorMap
from gateway.fleet.ownership_overrides import OwnershipOverrides
from gateway.mirror.interface import PartitionStatus
from gateway.mirror.rules.mirror_partition import MirrorPartition
from gateway.state.records import MirrorRecord
from tests.support.control.mirror_records import mirror_record
from tests.support.fakes.fake_engine import status

PARTS = frozenset(MirrorPartition("l", "t", index) for index in range(2))


class Engine:
    """`told`: what it says of the topic now."""

    def __init__(self) -> None:
        self.told: Sequence[PartitionStatus] = ()

    def started_as(self, link: str, topic: str) -> MirrorRecord | None:
        return mirror_record(link=link, source_topic=topic, mirror_topic=topic, mirror_id=1)

    def status(self, mirror: MirrorRecord) -> Sequence[PartitionStatus]:
        return self.told


@pytest.mark.parametrize(
    ("told", "come"),
    [
        ((), False),
        ((status(0),), False),
        ((status(0), status(1, mirrored_to=99)), False),
        ((status(0, mirrored_to=89), status(1)), False),
        ((status(0, mirrored_to=90), status(1)), True),
        ((status(0, mirrored_to=90, source_end=None), status(1)), True),
        ((status(0, mirrored_to=None), status(1)), False),
        ((status(0), status(1, source_end=None)), False),
    ],
)
def test_a_partition_of_which_nobody_has_told_is_waited_for(told: Sequence[PartitionStatus], come: bool) -> None:
    """Of partition 0 the source's end was told before it moved; of partition 1 its end is the one seen from here."""
    known, engine = MirrorMap("a"), Engine()
    known._topics = {("l", "t"): dict.fromkeys(PARTS, "a")}
    claims = OwnershipOverrides(known, engine, lambda: PARTS, engine.status, lambda: None)  # type: ignore[arg-type]
    engine.told = told
    assert claims._has_come_to("l", "t", {0: 90}) is come
