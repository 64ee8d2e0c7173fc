"""Which topics are looked at: those of which something may have become; and that all is found that way."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.cutover.write_pause.rules.cutovers_seen import RETRIED_S
from gateway.cutover.write_pause.rules.routing import Routing, RoutingTable, WritePhase
from gateway.cutover.write_pause.rules.write_pause import Pause
from gateway.kafka.rules.names import topic_id_text
from gateway.state.codec import Record, key_of
from gateway.state.records import LinkRecord, MirrorDirection, MirrorRecord, MirrorState, PartitionStart, ProducerEntry
from gateway.state.views import StateViews
from tests.support.control.mirror_records import changed, mirror_record

LINK = LinkRecord(name="l", link_id=1, source_cluster_id="s", client={})
RECORD = MirrorRecord(link="l", source_topic="t", mirror_topic="t", mirror_id=1, starts=(PartitionStart(0, 0),))
TABLE = ((ProducerEntry(1, 0, 0, 4, 10),),)


class Scene:
    """A publisher on the views of a state topic."""

    def __init__(self, *records: Record) -> None:
        self.store, self.table, self.now = StateViews(), RoutingTable(), 0.0
        self.put(LINK, *records)
        self.publisher = RoutingPublisher(cast("Any", self.store), self.table, lambda: self.now)
        self.publisher.refresh()
        self._looked: list[str] = []
        look_at = self.publisher._look_at

        def counted(topic: str, now: float) -> None:
            self._looked.append(topic)
            look_at(topic, now)

        cast("Any", self.publisher)._look_at = counted

    def put(self, *records: Record) -> None:
        self.store.apply([(key_of(each), each) for each in records], self.store.applied + 1)

    def delete(self, *records: Record) -> None:
        self.store.apply([(key_of(each), None) for each in records], self.store.applied + 1)

    @property
    def looked(self) -> list[str]:
        """The topics that were looked at since the last time."""
        found, self._looked = self._looked, []
        return sorted(found)

    @property
    def topics(self) -> set[str]:
        return set(self.table.current.topics)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_reservation_that_has_become_a_record_ends_without_a_look(scene: Scene) -> None:
    scene.publisher.reserve(RECORD)
    assert (scene.looked, scene.topics) == (["t"], {"t"})
    scene.put(RECORD)
    assert scene.looked == ["t"]
    scene.publisher.release("t")
    assert (scene.looked, scene.topics) == ([], {"t"})


def test_one_that_came_to_nothing_ends_the_route(scene: Scene) -> None:
    scene.publisher.reserve(RECORD)
    scene.publisher.release("t")
    assert (scene.looked, scene.topics) == (["t", "t"], set())
    scene.publisher.release("t")
    assert scene.looked == []


def test_what_is_known_to_be_readable_is_not_news(scene: Scene) -> None:
    scene.put(RECORD)
    assert scene.looked == ["t"]
    scene.publisher.make_readable("t")
    scene.publisher.make_readable("t")
    assert scene.looked == ["t"]
    assert scene.table.current.topics["t"].readable
    scene.publisher.forget("t")
    scene.publisher.make_readable("t")
    assert scene.looked == ["t", "t"]


def many(count: int) -> list[MirrorRecord]:
    return [changed(RECORD, source_topic=f"t-{n}", mirror_topic=f"t-{n}", mirror_id=n + 1) for n in range(count)]


def test_a_change_costs_the_topics_that_have_changed() -> None:
    scene = Scene(*many(100))
    told: list[set[str]] = []
    scene.table.subscribe(lambda routing, topics: told.append(set(topics)))
    scene.put(changed(many(8)[7], readable=True))
    assert scene.looked == ["t-7"]
    scene.put(changed(many(8)[7], readable=True, error_message="nothing that a route is made of"))
    assert scene.looked == ["t-7"]
    scene.publisher.pause([Pause("t-3", 1, 0), Pause("t-4", 1, 0)])
    assert scene.looked == ["t-3", "t-4"]
    scene.publisher.resume([Pause("t-4", 1, 0)])
    assert scene.looked == ["t-4"]
    scene.delete(many(1)[0])
    assert scene.looked == ["t-0"]
    assert told[0] == {f"t-{n}" for n in range(100)}, "all of the first one"
    assert told[1:] == [{"t-3", "t-4"}, {"t-4"}, {"t-0"}]


def test_a_link_concerns_all_of_its_topics() -> None:
    scene = Scene(*many(3))
    scene.delete(LINK)
    assert (len(scene.looked), scene.topics) == (3, set())
    scene.put(LINK)
    assert (len(scene.looked), len(scene.topics)) == (3, 3)


def test_a_topic_may_go_to_another_link(scene: Scene) -> None:
    scene.put(RECORD, LinkRecord(name="m", link_id=2, source_cluster_id="s2", client={}))
    scene.delete(RECORD)
    scene.put(changed(RECORD, link="m"))
    assert scene.table.current.topics["t"].link == "m"


def test_a_producer_table_is_dropped_when_no_retry_can_come() -> None:
    scene = Scene(changed(RECORD, state=MirrorState.STOPPED, producers=TABLE), *many(5))
    assert scene.table.current.topics["t"].producers == TABLE
    scene.publisher.look()
    assert scene.looked == []
    scene.now = RETRIED_S
    scene.publisher.look()
    assert scene.looked == ["t"]
    assert not any(scene.table.current.topics["t"].producers)


def test_ends_of_transactions_are_looked_at_for_as_long_as_one_from_before_a_cutover_may_come() -> None:
    scene = Scene(RECORD)
    assert not scene.table.current.ends_repeated
    scene.put(changed(RECORD, state=MirrorState.STOPPED))
    assert (scene.table.current.intercepts_produce, scene.table.current.ends_repeated) == (False, True)
    scene.now = RETRIED_S
    scene.publisher.look()
    assert not scene.table.current.ends_repeated


@pytest.mark.parametrize("seed", range(40))
def test_what_is_kept_topic_by_topic_is_what_is_found_from_all_records(seed: int) -> None:
    """Whatever came before it: records, pauses, reservations, links, in any order."""
    dice, scene = random.Random(seed), Scene()
    for step in range(120):
        _step(scene, dice, step)
        assert _shown(scene.table.current) == _shown(_anew(scene)), f"seed {seed}, step {step}"
        known = {each.mirror_topic for each in scene.store.mirrors.values()} | scene.publisher._reserved.keys()
        assert scene.publisher.pauses.keys() == known


def _step(scene: Scene, dice: random.Random, step: int) -> None:
    publisher, number = scene.publisher, dice.randrange(4)
    topic = f"t-{number}"
    record = mirror_record(
        link="l",
        source_topic=topic,
        mirror_topic=topic,
        mirror_id=step + 1,
        mirror_topic_id=dice.choice(["", topic_id_text(bytes([number + 1]) * 16)]),
        state=dice.choice(list(MirrorState)),
        direction=dice.choice(list(MirrorDirection)),
        pause_epoch=dice.randrange(4),
        readable=dice.random() < 0.5,
        producers=dice.choice([TABLE, ((),)]),
        cutover_ms=dice.randrange(3),
        starts=(PartitionStart(0, 0),),
    )
    pause = Pause(topic, dice.randrange(1, 6), dice.randrange(3))
    steps: list[Callable[[], object]] = [
        lambda: scene.put(record),
        lambda: scene.put(record),
        lambda: scene.delete(record),
        lambda: publisher.reserve(record),
        lambda: publisher.release(topic),
        lambda: publisher.pause([pause]),
        lambda: publisher.resume([pause]),
        lambda: publisher.assigned(pause.term, {topic: pause.epoch}),
        lambda: publisher.make_readable(topic),
        lambda: publisher.forget(topic),
        lambda: scene.delete(LINK),
        lambda: scene.put(LINK),
    ]
    dice.choice(steps)()


def _anew(scene: Scene) -> Routing:
    """From everything, by the same pauses: what the table must have."""
    publisher, table = scene.publisher, RoutingTable()
    fresh = RoutingPublisher(cast("Any", scene.store), table, lambda: scene.now)
    scene.store.unsubscribe(fresh.refresh)
    fresh.pauses = publisher.pauses
    fresh._cutovers = publisher._cutovers
    fresh._readable, fresh._reserved = publisher._readable, publisher._reserved
    fresh.refresh([*publisher._reserved])
    return table.current


def _shown(routing: Routing) -> Any:
    phases = {topic: (route, route.phase is WritePhase.PAUSED) for topic, route in routing.topics.items()}
    flags = routing.intercepts_produce, routing.ends_repeated, routing.unreadable
    return phases, routing.topic_ids, flags, routing.group_prefixes
