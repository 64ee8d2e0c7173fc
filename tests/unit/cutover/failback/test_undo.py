"""A mirror back that begins by itself, is kept and ends by itself; over the leader's end, and a source that is away."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.cutover.failback.rules.undo import PATIENCE_S
from gateway.errors import Conflict
from gateway.state.link_config import duration_ms
from gateway.state.records import MirrorDirection, MirrorRecord, MirrorState, Undo
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_engine import status
from tests.support.waiting import wait_until_async

KEY = ("l", "orders")
KEEP_MS = 60_000
S = MirrorState


def runs(plane: Plane) -> None:
    plane.engine.numbers[KEY] = [status(partition) for partition in range(3)]


async def promoted(plane: Plane, keep: str = "60s", **more: Any) -> MirrorRecord:
    """STOPPED, with logs that are alike, of a link that keeps mirrors back."""
    await plane.with_link(**{"failback.keep": keep})
    record = await plane.with_mirror()
    runs(plane)
    for cluster in (plane.source, plane.target):
        cluster.existing["orders"].ranges = [(0, 7), (0, 8), (0, 9)]
    await plane.parts.engine.stop_mirror(*KEY)
    stopped = {"stopped_at": (7, 8, 9), "restore_configs": {}, "readable": True, "cutover_ms": plane.now_ms, **more}
    keep_ms = duration_ms(keep)
    stopped = {"undo_until_ms": plane.now_ms + keep_ms if keep_ms else 0} | stopped
    await plane.by_hand(changed(record, state=S.STOPPED, **stopped))
    return plane.store.mirrors[KEY]


def now(plane: Plane) -> MirrorRecord:
    return plane.store.mirrors[KEY]


async def opened(plane: Plane) -> MirrorRecord:
    await plane.service.undos.look()
    await wait_until_async(lambda: now(plane).is_reverse and now(plane).state is S.ACTIVE, 30, what="a mirror back")
    return now(plane)


async def over(plane: Plane) -> MirrorRecord:
    """Look again and again, as the leader does, until nothing of the undo is left."""
    plane.now_ms += KEEP_MS
    for _ in range(8):
        plane.clock_s += 10
        await plane.service.undos.look()
        if now(plane).state is S.STOPPED:
            return now(plane)
    raise AssertionError(f"{now(plane).state} {plane.service.undos.waiting_for(*KEY)}")


async def test_it_begins_is_kept_and_ends(plane: Plane) -> None:
    at = (await promoted(plane)).cutover.at_ms
    record = await opened(plane)
    assert (record.cutover.undo, record.cutover.undo_until_ms) == (Undo.OPEN, at + KEEP_MS)
    lifted = dict(record.restore_configs)
    assert lifted
    await plane.service.undos.look()
    assert now(plane) == record
    record = await over(plane)
    assert (record.cutover.undo, record.restore_configs, record.is_reverse) == (Undo.OVER, {}, False)
    assert "the time for an undo was over" in record.error_message
    assert KEY not in plane.engine.running
    await plane.service.undos.look()
    assert now(plane).state is S.STOPPED


@pytest.mark.parametrize("keep", ["0", "1s"])
async def test_none_begins_that_is_not_asked_for_or_is_over(plane: Plane, keep: str) -> None:
    record = await promoted(plane, keep)
    plane.now_ms += 1_000
    await plane.service.undos.look()
    assert now(plane) == record


async def test_what_is_asked_for_later_is_for_later_promotes(plane: Plane) -> None:
    record = await promoted(plane, "0")
    link = plane.store.links["l"]
    await plane.store.replace(link, replace(link, configs={"failback.keep.ms": str(KEEP_MS)}))
    await plane.service.undos.look()
    assert now(plane) == record


async def test_it_does_not_begin_before_its_promote_is_over(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which still sets the topic's configs back."""
    record = await promoted(plane)
    with monkeypatch.context() as patch:
        patch.setattr(plane.service.mirrors, "promoting", lambda link, topic: True)
        await plane.service.undos.look()
        assert now(plane) == record
        assert "its promote is not over" in plane.service.undos.waiting_for("l", "orders")
    await opened(plane)


async def test_home_is_a_promote_of_the_mirrors_back_as_one_set(plane: Plane) -> None:
    await promoted(plane)
    await opened(plane)
    plane.promoters.gate = asyncio.Event()
    (dry,) = await plane.service.undos.undo("l", ["orders"], validate_only=True)
    assert dry.record == now(plane)
    (view,) = await plane.service.undos.undo("l", ["orders", "orders"])
    assert view.state is S.PENDING_STOPPED
    assert plane.promoters.asked[-1] == ("l", ("orders",), False)


async def test_a_dry_run_tells_what_the_promote_home_would_refuse(plane: Plane) -> None:
    """It looked at the records alone: "would undo" of a source topic with one replica in sync."""
    await promoted(plane)
    before = await opened(plane)
    plane.promoters.refusal = Conflict("1 of 3 replicas on the source in sync")
    with pytest.raises(Conflict, match="1 of 3 replicas"):
        await plane.service.undos.undo("l", ["orders"], validate_only=True)
    assert now(plane) == before


@pytest.mark.parametrize("validate_only", [True, False])
async def test_records_that_somebody_wrote_to_the_source_refuse_it_beforehand(
    plane: Plane, validate_only: bool
) -> None:
    await promoted(plane)
    before = await opened(plane)
    plane.promoters.late_writes = "3 records were written to the source"
    with pytest.raises(Conflict, match="3 records were written"):
        await plane.service.undos.undo("l", ["orders"], validate_only=validate_only)
    assert now(plane) == before
    assert not plane.promoters.asked


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"state": S.ACTIVE}, "there is nothing to undo"),
        ({"state": S.PENDING_STOPPED}, "is being promoted"),
        ({"state": S.STOPPED}, "lockgate mirror reverse"),
        ({"state": S.STOPPED, "undo": Undo.OVER, "undo_until_ms": 5}, "the time for it is over"),
        ({"state": S.STOPPED, "undo": Undo.REFUSED, "undo_until_ms": 5}, "it could not be begun"),
        ({"state": S.PENDING_SYNCHRONIZE, "undo": Undo.OPEN, "undo_until_ms": 5}, "begins just now"),
        ({"state": S.PENDING_MIRROR, "direction": MirrorDirection.REVERSE}, "begins just now"),
        ({"state": S.PAUSED, "direction": MirrorDirection.REVERSE}, "lockgate mirror resume"),
        ({"state": S.FAILED, "direction": MirrorDirection.REVERSE, "error_message": "x"}, "FAILED (x)"),
        ({"state": S.PENDING_STOPPED, "direction": MirrorDirection.REVERSE}, "on its way home already"),
        ({"state": S.ACTIVE, "direction": MirrorDirection.REVERSE, "undo": Undo.OVER, "undo_until_ms": 5}, "is over"),
    ],
)
async def test_what_is_refused_and_the_remedy(plane: Plane, values: dict[str, Any], words: str) -> None:
    record = await promoted(plane, "0")
    await plane.by_hand(changed(record, **values))
    with pytest.raises(Conflict, match=f"'orders' .*{words.split('(')[0]}"):
        await plane.service.undos.undo("l", ["orders"])
    assert plane.promoters.asked == []


async def test_logs_that_differ_refuse_it_once(plane: Plane) -> None:
    await promoted(plane)
    plane.source.existing["orders"].ranges = [(0, 9), (0, 8), (0, 9)]  # somebody wrote beside the gateway
    await plane.service.undos.look()
    record = now(plane)
    assert (record.state, record.cutover.undo) == (S.STOPPED, Undo.REFUSED)
    assert "2 records are on the source" in record.transition_errors[-1].error_message
    plane.source.existing["orders"].ranges = [(0, 7), (0, 8), (0, 9)]
    await plane.service.undos.look()
    assert now(plane) == record


async def test_a_silent_source_is_asked_again_until_the_time_is_over(plane: Plane) -> None:
    record = await promoted(plane)
    plane.source.down = True
    await plane.service.undos.look()
    assert "the undo waits" in plane.service.undos.waiting_for(*KEY)
    assert now(plane) == record
    plane.source.down = False
    plane.clock_s += 10
    await opened(plane)


async def test_the_next_leader_goes_on_at_any_step(plane: Plane) -> None:
    await promoted(plane)
    await opened(plane)
    for step in range(4):  # marked, paused, its configs set back, stopped: a leader for each
        plane.now_ms += KEEP_MS
        await plane.service.close()
        leader = Plane(plane.log.kept, clusters_of=plane)
        leader.now_ms = plane.now_ms
        runs(leader)
        await leader.start()
        await leader.service.undos.look()
        plane = leader
        assert now(plane).cutover.undo is Undo.OVER, step
    assert (now(plane).state, now(plane).restore_configs) == (S.STOPPED, {})
    await plane.close()


async def test_a_source_that_is_away_at_the_end_is_waited_for_and_not_for_ever(plane: Plane) -> None:
    await promoted(plane)
    await opened(plane)
    plane.source.down = True
    with pytest.raises(AssertionError, match=r"PAUSED the undo waits"):
        await over(plane)
    plane.clock_s += PATIENCE_S
    record = await over(plane)
    assert "keeps configs of a copy" in record.transition_errors[-1].error_message


async def test_who_ends_it_is_not_asked_twice(plane: Plane) -> None:
    await promoted(plane)
    await opened(plane)
    await plane.service.failbacks.failover("l", ["orders"])
    await plane.service.undos.look()
    assert (now(plane).state, now(plane).cutover.undo) == (S.STOPPED, Undo.OPEN)
