"""From records to routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import pytest

from gateway.cutover.write_pause.rules.routing import Routing, WritePhase
from gateway.cutover.write_pause.rules.routing_build import Routes
from gateway.cutover.write_pause.rules.write_pause import Pause, WritePauses, phase_of, recorded
from gateway.kafka.rules.names import topic_id_text
from gateway.state.ack import Ack
from gateway.state.records import LinkRecord, MirrorDirection, MirrorRecord, MirrorState, PartitionStart, ProducerEntry
from tests.support.control.mirror_records import mirror_record

TOPIC_ID = bytes(range(16))
LINKS = {"l": LinkRecord(name="l", link_id=1, source_cluster_id="S", client={}, configs={"ack": "both"})}
TABLE = ((ProducerEntry(1, 0, 0, 4, 10),), ())


def mirror(state: MirrorState = MirrorState.ACTIVE, **changes: object) -> MirrorRecord:
    values = {"link": "l", "source_topic": "t", "mirror_topic": "t", "mirror_id": 1, "state": state}
    values |= {"starts": (PartitionStart(0, 0),) * 2} | changes
    return mirror_record(**values)


def built(
    routes: Routes,
    pauses: WritePauses,
    records: Sequence[MirrorRecord],
    links: Mapping[str, LinkRecord] = LINKS,
    *,
    readable: AbstractSet[str] = frozenset(),
    retried: AbstractSet[str] = frozenset(),
) -> Routing:
    """The snapshot of these mirrors, all of which are looked at."""
    for topic in routes.snapshot(links).topics.keys() - {record.mirror_topic for record in records}:
        routes.drop(topic)
    for record in records:
        topic = record.mirror_topic
        routes.put(record, links[record.link], pauses[topic], readable=topic in readable, retried=topic in retried)
    return routes.snapshot(links)


def routing(
    record: MirrorRecord, *, paused: bool = False, retried: frozenset[str] = frozenset(), **more: Any
) -> Routing:
    pauses = WritePauses()
    pauses.record("t", recorded(record, retried="t" in retried))
    if paused:
        assert pauses.pause(Pause("t", 1, 0))
    return built(Routes(), pauses, [record], retried=retried, **more)


def route(record: MirrorRecord, **more: Any):
    return routing(record, **more).topics["t"]


AT_REST = (MirrorState.STOPPED, MirrorState.PENDING_SYNCHRONIZE)
REVERSE = MirrorDirection.REVERSE


@pytest.mark.parametrize("state", [s for s in MirrorState if s not in AT_REST])
def test_before_stopped_writes_go_to_the_source(state):
    assert route(mirror(state)).phase is WritePhase.FORWARD


@pytest.mark.parametrize("state", list(MirrorState))
def test_a_reversed_topic_is_written_on_the_target_and_counted(state):
    found = route(mirror(state, direction=REVERSE))
    assert (found.phase, found.counted, found.readable) == (WritePhase.SWITCHED, True, True)


def test_what_clients_may_write_through_the_link():
    filters = '{"topicFilters": [{"name": "%s", "patternType": "PREFIXED", "filterType": "INCLUDE"}]}'
    for prefix, found in (("on-source", True), ("other", False)):
        configs = {"link.client.topic.filters": filters % prefix}
        links = {"l": replace(LINKS["l"], configs=configs)}
        record = mirror(source_topic="on-source-t")
        pauses = WritePauses()
        pauses.record("t", recorded(record, retried=False))
        assert built(Routes(), pauses, [record], links).topics["t"].by_clients is found


def test_writes_are_counted_before_the_mirror_back_begins():
    assert route(mirror(MirrorState.PENDING_SYNCHRONIZE)).counted
    assert not route(mirror(MirrorState.STOPPED)).counted


def test_what_may_pass_untouched():
    def passes(record: MirrorRecord) -> bool:
        return not routing(record).intercepts_produce

    assert passes(mirror(MirrorState.STOPPED, producers=TABLE))  # of long ago
    assert not route(mirror(MirrorState.STOPPED, producers=TABLE), retried=frozenset({"t"})).passes
    assert not passes(mirror(MirrorState.STOPPED, failback_epoch=1))
    assert not passes(mirror(direction=REVERSE))
    assert not passes(mirror())


def test_a_pause_holds_and_stopped_switches():
    assert route(mirror(MirrorState.PENDING_STOPPED), paused=True).phase is WritePhase.PAUSED
    assert route(mirror(MirrorState.PENDING_STOPPED)).phase is WritePhase.FORWARD
    assert route(mirror(MirrorState.STOPPED)).phase is WritePhase.SWITCHED


def test_stopped_is_final_whatever_the_pause_says():
    assert phase_of(mirror(MirrorState.STOPPED), is_paused=True) is WritePhase.SWITCHED


@pytest.mark.parametrize("state", [MirrorState.STOPPED, MirrorState.PENDING_MIRROR])
def test_the_first_writes_wait_until_the_topic_stamps_them_itself(state):
    assert phase_of(mirror(state, unstamped=True), is_paused=False) is WritePhase.PAUSED
    assert phase_of(mirror(state), is_paused=False) is not WritePhase.PAUSED


def test_a_pause_holds_the_writes_of_a_failback_too():
    pending = mirror(MirrorState.PENDING_STOPPED, direction=REVERSE)
    assert phase_of(pending, is_paused=True) is WritePhase.PAUSED
    assert (
        phase_of(mirror(MirrorState.PENDING_MIRROR), is_paused=False) is WritePhase.FORWARD
    )  # after the failback cutover


def test_options_of_the_link_and_the_record_are_in_the_route():
    found = route(mirror())

    assert (found.ack, found.link, found.source_topic) == (Ack.BOTH, "l", "t")


def test_settled_by_record_by_event_or_by_being_stopped():
    assert not route(mirror()).readable
    assert route(mirror(readable=True)).readable
    assert route(mirror(), readable={"t"}).readable
    assert route(mirror(MirrorState.STOPPED)).readable


def test_producers_are_kept_while_a_retry_may_come_only():
    for record in (mirror(MirrorState.STOPPED, producers=TABLE), mirror(producers=TABLE)):
        assert route(record, retried=frozenset({"t"})).producers == TABLE
        assert route(record, retried=frozenset({"other"})).producers == ()


def test_writes_wait_while_it_is_not_known_which_are_retries():
    broken = mirror(MirrorState.STOPPED, producers=(*TABLE, ()), cutover_ms=1000)
    found = route(broken, retried=frozenset({"t"}))
    assert (found.phase, found.producers) == (WritePhase.PAUSED, ())
    assert route(broken).phase is WritePhase.SWITCHED


def test_topic_ids_lead_to_names():
    assert routing(mirror(mirror_topic_id=topic_id_text(TOPIC_ID))).topic_ids == {TOPIC_ID: "t"}


def test_groups_have_the_prefix_of_a_link_that_gives_them_one():
    configs = {"link.prefix": "usa_", "consumer.group.prefix.enable": "true"}
    links = {
        "a": LinkRecord(name="a", link_id=1, source_cluster_id="A", client={}, configs=configs),
        "b": LinkRecord(name="b", link_id=2, source_cluster_id="B", client={}, configs={"link.prefix": "eu_"}),
    }

    found = Routes().snapshot(links)

    assert [found.group_at(cluster, "usa_g") for cluster in ("A", "B", "")] == ["g", "usa_g", "usa_g"]


def test_what_has_not_changed_is_not_built_again_and_what_has_is():
    routes, pauses, record = Routes(), WritePauses(), mirror(producers=TABLE)
    other = replace(record, source_topic="u", mirror_topic="u")

    def build(*records: MirrorRecord, links=LINKS, **more: Any) -> Any:
        for each in records:
            pauses.record(each.mirror_topic, recorded(each, retried=False))
        for topic in set(pauses) - {each.mirror_topic for each in records}:
            pauses.record(topic, None)
        return built(routes, pauses, records, links, **more).topics

    first = build(record, other)
    assert build(record, other)["t"] is first["t"]
    changed = replace(record, readable=True)
    found = build(changed, other)
    assert found["t"].readable
    assert found["u"] is first["u"]
    assert build(record, other, readable={"t"})["t"].readable
    assert build(record, other, retried={"t"})["t"].producers == TABLE
    assert build(record, other)["t"] == first["t"]
    other_link = {"l": replace(LINKS["l"], configs={"ack": "source"})}
    assert build(record, other, links=other_link)["t"].ack is Ack.SOURCE
    build(other)
    again = build(record, other)["t"]
    assert again.pause is pauses["t"], "its mirror was deleted and made anew"


def test_what_is_news_is_named_once():
    routes, pauses, record = Routes(), WritePauses(), mirror()
    pauses.record("t", recorded(record))

    def put(each: MirrorRecord, **more: bool) -> set[str]:
        pauses.record("t", recorded(each))
        routes.put(each, LINKS["l"], pauses["t"], **{"readable": False, "retried": False} | more)
        return routes.changed

    assert put(record) == {"t"}
    first = routes.snapshot(LINKS)
    assert put(record) == set()
    assert put(replace(record, error_message="x")) == set(), "the route is an equal one"
    assert put(record, readable=True) == {"t"}
    assert first.topics["t"].readable is False, "a snapshot does not change"
    routes.snapshot(LINKS)
    assert pauses.pause(Pause("t", 1, 0))
    assert routes.phase("t") is WritePhase.FORWARD
    assert put(record, readable=True) == {"t"}
    assert routes.phase("t") is WritePhase.PAUSED
    routes.snapshot(LINKS)
    routes.drop("t")
    routes.drop("t")
    assert (routes.changed, routes.snapshot(LINKS).topics) == ({"t"}, {})


def test_flags_and_topic_ids_follow_each_topic():
    routes, pauses = Routes(), WritePauses()
    records = [
        mirror(
            MirrorState.STOPPED, source_topic=topic, mirror_topic=topic, mirror_topic_id=topic_id_text(TOPIC_ID[::at])
        )
        for topic, at in (("t", 1), ("u", -1))
    ]
    for each in records:
        pauses.record(each.mirror_topic, recorded(each))
    found = built(routes, pauses, records)
    assert (found.intercepts_produce, found.unreadable) == (False, False)
    assert found.topic_ids == {TOPIC_ID: "t", TOPIC_ID[::-1]: "u"}
    active = replace(records[0], state=MirrorState.ACTIVE, mirror_topic_id="")
    pauses.record("t", recorded(active))
    found = built(routes, pauses, [active, records[1]])
    assert (found.intercepts_produce, found.unreadable) == (True, True)
    assert found.topic_ids == {TOPIC_ID[::-1]: "u"}
    found = built(routes, pauses, records[1:])
    assert (found.intercepts_produce, found.unreadable) == (False, False)
