"""The record of a topic promote: commits that fail or are of unknown outcome, changes by others, and a restart in
between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.cutover.promote.gather import Gatherer
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.errors import Conflict, TargetUnreachable
from gateway.kafka.connection.errors import BrokerError
from gateway.kafka.rules.acl import Acl, Operation, PatternType, Permission, ResourceType
from gateway.state.records import MirrorState
from gateway.state.store import StoreError, StoreUncertain
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.control.topic_scene import TopicScene, mirrored_topic
from tests.support.waiting import wait_until_async


@pytest.fixture
async def scene(plane: Plane) -> TopicScene:
    return await mirrored_topic(plane)


async def test_a_cutover_whose_commit_is_lost_stays_paused_until_known(scene: TopicScene) -> None:
    at_pending = len(scene.plane.log.commits) + 1
    commit = scene.plane.log.commit

    async def lose(changes: object, still: Callable[[], None]) -> int:
        if len(scene.plane.log.commits) == at_pending:
            scene.plane.log.failures.append(StoreUncertain("no answer"))
            scene.plane.log.commit = commit  # type: ignore[method-assign]
        return await commit(changes, still)  # type: ignore[arg-type]

    scene.plane.log.commit = lose  # type: ignore[method-assign]
    (record,) = await scene.promote()
    assert record.state is MirrorState.STOPPED
    paused = scene.phases.index(WritePhase.PAUSED)
    assert WritePhase.FORWARD not in scene.phases[paused:]


async def test_a_cutover_that_is_refused_for_sure_goes_back(scene: TopicScene) -> None:
    commit, refused = scene.plane.log.commit, []

    async def refuse(changes: object, still: Callable[[], None]) -> int:
        if "STOPPED" in str(changes) and "PENDING_STOPPED" not in str(changes):
            refused.append(1)
            raise StoreError("not enough replicas")
        return await commit(changes, still)  # type: ignore[arg-type]

    scene.plane.log.commit = refuse  # type: ignore[method-assign]
    with pytest.raises(Conflict, match="not done"):
        await scene.promote()
    assert refused
    scene.assert_back()
    assert scene.plane.engine.log[-1] == ("start_mirror", "orders")


async def test_nothing_is_begun_when_the_state_cannot_be_written(scene: TopicScene) -> None:
    scene.plane.log.failures = [StoreError("target is away")]
    with pytest.raises(TargetUnreachable, match="target is away"):
        await scene.promote()
    scene.assert_back()


async def test_a_mirror_that_fails_meanwhile_is_resumed(scene: TopicScene) -> None:
    async def fail() -> None:
        await scene.plane.store.put(replace(scene.record, state=MirrorState.FAILED))

    def on_read(number: int) -> None:
        if scene.forwarder.paused and not failing:
            failing.append(asyncio.create_task(fail()))

    failing: list[asyncio.Task[None]] = []
    scene.ends.on_read = on_read
    with pytest.raises(Conflict, match="orders became FAILED"):
        await scene.promote()
    assert scene.record.state is MirrorState.FAILED
    assert scene.plane.routing.current.topics["orders"].phase is WritePhase.FORWARD


async def test_an_interrupted_promote_goes_on(scene: TopicScene) -> None:
    pending = changed(scene.record, state=MirrorState.PENDING_STOPPED, state_since_ms=5, pause_epoch=3)
    await scene.plane.store.put(pending)
    scene.promoter.resume()
    await wait_until_async(lambda: scene.record.state is MirrorState.STOPPED, 5, what="STOPPED")
    assert scene.record.cutover.pause_epoch == 4
    assert scene.forwarder.paused == [("orders", 4)]


async def test_an_interrupted_promote_that_cannot_go_on_ends_active(scene: TopicScene) -> None:
    scene.ends.down = True
    await scene.plane.store.put(changed(scene.record, state=MirrorState.PENDING_STOPPED, pause_epoch=3))
    scene.promoter.resume()
    await wait_until_async(lambda: scene.record.state is MirrorState.ACTIVE, 5, what="ACTIVE")
    assert "connection refused" in scene.record.error_message


async def _interrupted_set(scene: TopicScene, *topics: str, of: tuple[str, ...]) -> None:
    """As a promote of `of` leaves it that was interrupted. Its records were made one after the other."""
    for number, name in enumerate(topics):
        record = scene.plane.store.mirrors["l", name]
        values = {"state": MirrorState.PENDING_STOPPED, "state_since_ms": 9 + number, "promoted_with": of}
        await scene.plane.store.put(changed(record, **values))


async def test_what_was_a_set_is_one_again(scene: TopicScene) -> None:
    names = ("orders", "payments")
    await scene.mirror("payments")
    await _interrupted_set(scene, *names, of=names)
    scene.promoter.resume()
    await wait_until_async(lambda: scene.record.state is MirrorState.STOPPED, 5, what="STOPPED")
    assert scene.plane.state("payments") is MirrorState.STOPPED
    stopped = [sorted(key for key, _ in commit) for commit in scene.plane.log.commits if '"STOPPED"' in str(commit)]
    mirrors = [key for key in stopped[0] if not key.startswith("producers/")]
    assert mirrors == ["mirror/l/orders", "mirror/l/payments"], "behind it their configs are set back"
    assert not scene.record.cutover.promoted_with


@pytest.mark.parametrize("gone", ["it failed", "another set"])
async def test_a_set_that_is_not_whole_any_more_is_given_up(scene: TopicScene, gone: str) -> None:
    """Its topics cut over together, or not at all."""
    names = ("orders", "payments")
    await scene.mirror("payments")
    await _interrupted_set(scene, "orders", of=names)
    if gone == "another set":
        await _interrupted_set(scene, "payments", of=("payments",))
    else:
        payments = scene.plane.store.mirrors["l", "payments"]
        await scene.plane.store.put(replace(payments, state=MirrorState.FAILED))
    scene.promoter.resume()
    await wait_until_async(lambda: scene.record.state is MirrorState.ACTIVE, 5, what="ACTIVE")
    assert "mirror topic 'payments' of its set is not being promoted any more" in scene.record.error_message
    assert not scene.record.cutover.promoted_with
    if gone == "another set":
        await wait_until_async(lambda: scene.plane.state("payments") is MirrorState.STOPPED, 5, what="STOPPED")


async def test_a_set_with_one_name_for_its_topics_is_one_again_or_given_up(
    scene: TopicScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.state.promote_sets.NAMED", 1)
    await scene.mirror("payments")
    scene.ends.down = True
    promote = asyncio.create_task(scene.promote("orders", "payments"))
    await wait_until_async(lambda: scene.record.state is MirrorState.PENDING_STOPPED, 5, what="PENDING_STOPPED")
    (name,) = scene.record.cutover.promoted_with
    assert scene.plane.store.mirrors["l", "payments"].cutover.promoted_with == (name,)
    with pytest.raises(Conflict, match="connection refused"):
        await promote
    scene.ends.down = False
    await _interrupted_set(scene, "orders", of=(name,))
    scene.promoter.resume()
    await wait_until_async(lambda: scene.record.state is MirrorState.ACTIVE, 5, what="ACTIVE")
    assert "all but 1 of 2 topics of its set is not being promoted any more" in scene.record.error_message
    await _interrupted_set(scene, "orders", "payments", of=(name,))
    scene.promoter.resume()
    await wait_until_async(lambda: scene.record.state is MirrorState.STOPPED, 5, what="STOPPED")
    assert scene.plane.state("payments") is MirrorState.STOPPED


async def test_the_records_of_a_set_say_so(scene: TopicScene) -> None:
    await scene.mirror("payments")
    scene.ends.down = True
    promote = asyncio.create_task(scene.promote("orders", "payments"))
    await wait_until_async(lambda: scene.record.state is MirrorState.PENDING_STOPPED, 5, what="PENDING_STOPPED")
    payments = scene.plane.store.mirrors["l", "payments"]
    assert scene.record.cutover.promoted_with == payments.cutover.promoted_with == ("orders", "payments")
    with pytest.raises(Conflict, match="connection refused"):
        await promote
    assert not scene.record.cutover.promoted_with


async def test_it_stands_on_the_mirror_of_the_record(scene: TopicScene) -> None:
    """Partitions came, and their store had an unknown outcome: what runs does not know of them."""
    engine, record = scene.plane.engine, scene.record
    engine.running["l", "orders"] = replace(record, starts=record.starts[:2])
    engine.log.clear()
    await scene.promote()
    assert engine.log[:2] == [("stop_mirror", "orders"), ("start_mirror", "orders")]


ALICE = Acl(ResourceType.TOPIC, PatternType.LITERAL, "orders", "User:alice", "*", Operation.WRITE, Permission.ALLOW)


@pytest.fixture
async def with_acls(plane: Plane) -> TopicScene:
    """The source lets alice write `orders`; of the target's hosts only the gateway's may, until the promote."""
    filters = '{"aclFilters": [{"resourceFilter": {"resourceType": "topic"}}]}'
    plane.source.acls_there = {ALICE}
    await plane.with_link(**{"acl.sync.enable": "true", "acl.filters": filters, "acl.sync.write.hosts": "10.0.0.1"})
    return await mirrored_topic(plane)


async def test_rights_come_with_the_cutover(with_acls: TopicScene) -> None:
    """A gateway's clients have theirs before the writes pause, everybody right behind the cutover, in the same run."""
    target, before = with_acls.plane.target, []
    with_acls.ends.on_read = lambda _: before.append(set(target.acls_there)) if with_acls.forwarder.paused else None
    await with_acls.promote()
    assert ALICE._replace(host="10.0.0.1") in before[0]
    assert all(ALICE not in acls for acls in before), "not while the topic is mirrored"
    assert target.acls_there == {ALICE}


async def test_acls_that_cannot_be_made_hold_no_promote_up(with_acls: TopicScene) -> None:
    target = with_acls.plane.target
    target.refuse["acls"] = BrokerError(31, "describe ACLs: CLUSTER_AUTHORIZATION_FAILED")
    (record,) = await with_acls.promote()
    assert record.state is MirrorState.STOPPED
    assert with_acls.plane.routing.current.topics["orders"].phase is WritePhase.SWITCHED
    target.refuse.clear()
    await with_acls.plane.service.acl_sync.follow("l")
    assert target.acls_there == {ALICE}


async def test_a_promote_that_is_given_up_leaves_the_rights_as_they_were(with_acls: TopicScene) -> None:
    with_acls.forwarder.silent = True
    with pytest.raises(Conflict, match="not done"):
        await with_acls.promote()
    assert ALICE not in with_acls.plane.target.acls_there


async def test_all_of_a_write_pause_is_accounted_for_by_step(scene: TopicScene) -> None:
    await scene.promote()
    ((paused_s, steps),) = scene.spent
    assert sum(steps.values()) == pytest.approx(paused_s)
    assert {"pause_writes", "read_ends", "stop_mirror", "read_copy", "persist_stopped", "decide"} <= set(steps)
    assert min(steps.values()) >= 0


async def test_an_unexpected_error_before_the_write_pause_leaves_no_topic_pending(
    scene: TopicScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of ours: nobody would go on with it before the next term."""

    async def broken(_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(Gatherer, "read_configs", broken)
    with pytest.raises(RuntimeError, match="a fault"):
        await scene.promote()
    assert scene.record.state is MirrorState.ACTIVE
    assert WritePhase.PAUSED not in scene.phases
