"""A failback epoch outlives its mirror: clients go on in it, mirrors that are made again too; and it is forgotten when
nobody needs it."""

from __future__ import annotations

from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.state.records import MirrorState
from gateway.topics.failback_epochs import ForgetsFailbackEpochs
from tests.support.control.mirror_records import changed


async def at_home(plane, topic: str = "orders", epoch: int = 1, state: MirrorState = MirrorState.STOPPED):
    """A topic that has failed back."""
    record = changed(await plane.with_mirror(topic), failback_epoch=epoch, state=state)
    await plane.by_hand(record)
    return record


async def test_clients_go_on_in_it_when_the_link_is_gone(plane):
    record = await at_home(plane)
    before = plane.routing.current.failbacks

    await plane.service.links.delete("l")

    route = plane.routing.current.topics["orders"]
    assert (route.failback_epoch, route.phase, route.passes) == (1, WritePhase.SWITCHED, False)
    assert not route.is_mirrored
    assert list(plane.routing.current.topic_ids.values()) == ["orders"]
    assert plane.store.failback_epochs["orders"].mirror_topic_id == record.mirror_topic_id
    assert plane.routing.current.failbacks == before == 1
    assert not plane.routing.current.mirrors, "no gate concerns anybody"


async def test_a_gateway_that_starts_then_knows_it(plane):
    await at_home(plane)
    await plane.service.links.delete("l")
    other = type(plane)(dict(plane.log.kept), plane)
    await other.store.open()
    other.parts.publisher.refresh()
    assert other.routing.current.topics["orders"].failback_epoch == 1
    assert other.routing.current.failbacks == 1
    await other.store.close()


async def test_a_mirror_that_is_made_again_goes_on_with_it(plane):
    await at_home(plane, state=MirrorState.ACTIVE)
    await plane.service.mirror_deletion.delete("l", "orders", topic_too=True, force=True)
    assert plane.routing.current.topics["orders"].failback_epoch == 1

    await plane.service.mirrors.create("l", "orders")

    route = plane.routing.current.topics["orders"]
    assert (route.failback_epoch, route.phase, route.is_mirrored) == (1, WritePhase.FORWARD, True)
    assert plane.routing.current.failbacks == 1


async def test_one_that_was_written_on_the_target_begins_the_next_epoch(plane):
    """The source's brokers would miss what its producers have written there."""
    await at_home(plane, epoch=0)
    await plane.service.mirror_deletion.delete("l", "orders", topic_too=True, force=True)
    assert "orders" not in plane.routing.current.topics

    await plane.service.mirrors.create("l", "orders")

    assert plane.store.mirrors["l", "orders"].failback.epoch == 1


async def test_a_pause_begins_anew_behind_a_mirror_that_was_deleted(plane):
    record = await at_home(plane, state=MirrorState.ACTIVE)
    await plane.by_hand(changed(record, pause_epoch=5))
    await plane.service.mirror_deletion.delete("l", "orders", topic_too=True, force=True)
    await plane.service.mirrors.create("l", "orders")
    assert plane.parts.publisher.pauses["orders"].pause(1, 1)
    plane.parts.publisher.refresh(["orders"])
    assert plane.routing.current.topics["orders"].phase is WritePhase.PAUSED


async def test_what_is_forgotten_still_counts(plane):
    """A transactional id never comes to a place again where its producer has been."""
    for topic, epoch in (("a", 1), ("b", 2), ("c", 4)):
        await at_home(plane, topic, epoch)
    await plane.service.links.delete("l")
    for topic in ("a", "b"):
        del plane.target.existing[topic]

    await ForgetsFailbackEpochs(records=plane.parts.records, target=plane.target, most=3).look()
    assert set(plane.store.failback_epochs) == {"a", "b", "c"}
    await ForgetsFailbackEpochs(records=plane.parts.records, target=plane.target, most=1).look()

    assert "c" in plane.store.failback_epochs, "its topic is there"
    assert len(plane.store.failback_epochs) == 2
    assert plane.routing.current.failbacks == 7
    assert plane.store.forgotten_failbacks == 7 - sum(one.epoch for one in plane.store.failback_epochs.values())


async def test_a_target_that_does_not_answer_has_said_nothing(plane):
    await at_home(plane)
    await plane.service.links.delete("l")
    del plane.target.existing["orders"]
    plane.target.down = True
    forgets = ForgetsFailbackEpochs(records=plane.parts.records, target=plane.target, most=0)
    await forgets.look()
    assert "orders" in plane.store.failback_epochs
    plane.target.down = False
    await forgets.look()
    assert not plane.store.failback_epochs
    assert "orders" not in plane.routing.current.topics
    assert plane.routing.current.failbacks == 1
