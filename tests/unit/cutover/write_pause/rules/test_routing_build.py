"""From records to routes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.cutover.write_pause.rules.routing import Routing, WritePhase
from gateway.cutover.write_pause.rules.routing_build import RouteBuilder
from gateway.cutover.write_pause.rules.write_pause import Pause, WritePauses, phase_of, recorded
from gateway.kafka.rules.topic_ids import topic_id_text
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


def routing(
    record: MirrorRecord, *, paused: bool = False, retried: frozenset[str] = frozenset(), **more: Any
) -> Routing:
    pauses = WritePauses()
    pauses.records({"t": recorded(record, retried="t" in retried)})
    if paused:
        assert pauses.pause(Pause("t", 1, 0))
    return RouteBuilder().build(LINKS, [record], pauses, retried=retried, **more)


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
        pauses.records({"t": recorded(record, retried=False)})
        assert RouteBuilder().build(links, [record], pauses).topics["t"].by_clients is found


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


def test_the_first_writes_wait_until_the_topic_stamps_them_itself():
    stopped = mirror(MirrorState.STOPPED, restore_configs={"message.timestamp.type": "LogAppendTime"})
    assert phase_of(stopped, is_paused=True) is WritePhase.PAUSED
    assert phase_of(stopped, is_paused=False) is WritePhase.SWITCHED
    plain = mirror(MirrorState.STOPPED, restore_configs={"message.timestamp.type": "CreateTime"})
    assert phase_of(plain, is_paused=True) is WritePhase.SWITCHED


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


def test_a_mirror_without_its_link_has_no_route():
    assert RouteBuilder().build({}, [mirror()], {}).topics == {}


def test_groups_have_the_prefix_of_a_link_that_gives_them_one():
    configs = {"link.prefix": "usa_", "consumer.group.prefix.enable": "true"}
    links = {
        "a": LinkRecord(name="a", link_id=1, source_cluster_id="A", client={}, configs=configs),
        "b": LinkRecord(name="b", link_id=2, source_cluster_id="B", client={}, configs={"link.prefix": "eu_"}),
    }

    found = RouteBuilder().build(links, [], {})

    assert [found.group_at(cluster, "usa_g") for cluster in ("A", "B", "")] == ["g", "usa_g", "usa_g"]


def test_what_has_not_changed_is_not_built_again_and_what_has_is():
    builder, pauses, record = RouteBuilder(), WritePauses(), mirror(producers=TABLE)
    other = replace(record, source_topic="u", mirror_topic="u")

    def build(*records: MirrorRecord, links=LINKS, **more: Any) -> Any:
        pauses.records({each.mirror_topic: recorded(each, retried=False) for each in records})
        return builder.build(links, records, pauses, **more).topics

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
