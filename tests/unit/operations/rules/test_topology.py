"""Chains and loops, by the records of the fleet before the source."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.operations.rules.topology import (
    FleetView,
    is_copy,
    is_written_by_a_mirror,
    upstream_of,
    why_not_an_origin,
    why_not_mirrored,
)
from gateway.state.producer_ids import GATEWAY_PID_BASE, mirror_producer_id
from gateway.state.records import (
    LinkRecord,
    MirrorCutover,
    MirrorDirection,
    MirrorFailback,
    MirrorRecord,
    MirrorState,
    PartitionStart,
    Upstream,
)

A, B, C, D = "cluster-a", "cluster-b", "cluster-c", "cluster-d"


def fleet(source: str = A, **changes: Any) -> FleetView:
    """Before B, with a mirror of `t` from `source`."""
    mirror = MirrorRecord(
        link="l", source_topic="up", mirror_topic="t", mirror_id=1, starts=(PartitionStart(0, 0),), **changes
    )
    link = LinkRecord(name="l", link_id=1, source_cluster_id=source, client={})
    return FleetView({"l": link}, {"t": mirror})


def promoted(**changes: Any) -> FleetView:
    cutover = MirrorCutover(stopped_at=(9,), stopped_copy_at=(7,))
    return fleet(state=MirrorState.STOPPED, cutover=cutover, **changes)


BACK = MirrorFailback(direction=MirrorDirection.REVERSE)


@pytest.mark.parametrize("state", list(MirrorState))
def test_a_topic_is_a_copy_while_clients_do_not_write_it(state: MirrorState) -> None:
    mirror = fleet(state=state).mirrors["t"]
    assert is_copy(mirror) is (state not in (MirrorState.STOPPED, MirrorState.PENDING_SYNCHRONIZE))
    assert not is_copy(fleet(state=state, failback=BACK).mirrors["t"])


@pytest.mark.parametrize("written", [True, False])
def test_both_ways_is_a_loop(written: bool) -> None:
    said = why_not_mirrored("t", fleet(), A, written=written)
    assert "it would be a loop" in said
    assert A in said


def test_three_are_a_loop_by_what_the_source_knows_of_its_own_source() -> None:
    chain = fleet(B, upstream=(Upstream(A, "first", "t"),))
    assert "it would be a loop" in why_not_mirrored("t", chain, A, written=False)
    assert why_not_mirrored("t", chain, D, written=False) == ""


def test_what_was_promoted_on_the_way_is_no_loop() -> None:
    assert why_not_mirrored("t", promoted(), A, written=True) == ""
    ended = fleet(B, upstream=(Upstream(A, "first", "t", (5,)),))
    assert why_not_mirrored("t", ended, A, written=False) == ""


def test_nobody_writes_behind_another_mirror() -> None:
    said = why_not_mirrored("t", fleet(), C, written=True)
    assert "would land behind that mirror" in said
    assert "bootstrap.servers" in said
    assert "link.client.topic.filters" in said
    assert why_not_mirrored("t", fleet(), C, written=False) == ""
    assert why_not_mirrored("other", fleet(), C, written=True) == ""
    assert why_not_mirrored("t", fleet(failback=BACK), C, written=True) == ""


def test_a_copy_is_no_origin_before_it_is_promoted() -> None:
    assert "promote it there first" in why_not_an_origin("t", fleet())
    assert why_not_an_origin("t", promoted()) == ""
    assert why_not_an_origin("other", fleet()) == ""


def test_upstream_tells_up_to_where_batches_are_from_further_up() -> None:
    assert upstream_of(fleet(), "t") == (Upstream(A, "l", "up"),)
    assert upstream_of(promoted(), "t") == (Upstream(A, "l", "up", (7,)),)
    first = Upstream(A, "first", "t")
    assert upstream_of(fleet(B, upstream=(first,)), "t") == (Upstream(B, "l", "up"), first)
    assert upstream_of(fleet(), "other") == ()


def test_one_batch_that_no_mirror_wrote_is_enough() -> None:
    copied, back = mirror_producer_id(1, 2), mirror_producer_id(1, 2, 3, reverse=True)
    assert is_written_by_a_mirror([copied, mirror_producer_id(1, 2, 3)])
    for other in (-1, 5, GATEWAY_PID_BASE + 5, back):
        assert not is_written_by_a_mirror([copied, other])
    assert not is_written_by_a_mirror([]), "an empty topic says nothing"
