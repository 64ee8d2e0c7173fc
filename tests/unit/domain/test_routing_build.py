"""From records to routes."""

from __future__ import annotations

import pytest

from gateway.domain.records import LinkRecord, MirrorDirection, MirrorRecord, MirrorState, PartitionStart, ProducerEntry
from gateway.domain.routing import Ack, Phase
from gateway.domain.routing_build import phase_of, routing_from
from gateway.domain.topic_ids import topic_id_text

TOPIC_ID = bytes(range(16))
LINKS = {"l": LinkRecord(name="l", link_id=1, source_cluster_id="S", client={}, configs={"ack": "both"})}
TABLE = ((ProducerEntry(1, 0, 0, 4, 10),), ())


def mirror(state: MirrorState = MirrorState.ACTIVE, **changes: object) -> MirrorRecord:
    values = {"link": "l", "source_topic": "t", "mirror_topic": "t", "mirror_id": 1, "state": state}
    values |= {"starts": (PartitionStart(0, 0),) * 2} | changes
    return MirrorRecord(**values)  # type: ignore[arg-type]


def route(record: MirrorRecord, **more: object):
    return routing_from(LINKS, [record], **more).topics["t"]  # type: ignore[arg-type]


AT_REST = (MirrorState.STOPPED, MirrorState.PENDING_SYNCHRONIZE)
REVERSE = MirrorDirection.REVERSE


@pytest.mark.parametrize("state", [s for s in MirrorState if s not in AT_REST])
def test_before_stopped_writes_go_to_the_source(state):
    assert route(mirror(state)).phase is Phase.FORWARD


@pytest.mark.parametrize("state", list(MirrorState))
def test_a_reversed_topic_is_written_on_the_target_and_counted(state):
    found = route(mirror(state, direction=REVERSE))
    assert (found.phase, found.counted, found.settled) == (Phase.SWITCHED, True, True)


def test_writes_are_counted_before_the_mirror_back_begins():
    assert route(mirror(MirrorState.PENDING_SYNCHRONIZE)).counted
    assert not route(mirror(MirrorState.STOPPED)).counted


def test_what_may_pass_untouched():
    def passes(record: MirrorRecord) -> bool:
        return not routing_from(LINKS, [record]).intercepts_produce

    assert passes(mirror(MirrorState.STOPPED, producers=TABLE))  # of long ago
    assert not route(mirror(MirrorState.STOPPED, producers=TABLE), retried={"t"}).passes
    assert not passes(mirror(MirrorState.STOPPED, generation=1))
    assert not passes(mirror(direction=REVERSE))
    assert not passes(mirror())


def test_a_fence_holds_and_stopped_switches():
    assert route(mirror(MirrorState.PENDING_STOPPED), fenced={"t"}).phase is Phase.FENCED
    assert route(mirror(MirrorState.PENDING_STOPPED), fenced={"other"}).phase is Phase.FORWARD
    assert route(mirror(MirrorState.STOPPED)).phase is Phase.SWITCHED


def test_stopped_is_final_whatever_the_fence_says():
    assert phase_of(mirror(MirrorState.STOPPED), is_fenced=True) is Phase.SWITCHED


def test_the_first_writes_wait_until_the_topic_stamps_them_itself():
    stopped = mirror(MirrorState.STOPPED, restore_configs={"message.timestamp.type": "LogAppendTime"})
    assert phase_of(stopped, is_fenced=True) is Phase.FENCED
    assert phase_of(stopped, is_fenced=False) is Phase.SWITCHED
    plain = mirror(MirrorState.STOPPED, restore_configs={"message.timestamp.type": "CreateTime"})
    assert phase_of(plain, is_fenced=True) is Phase.SWITCHED


def test_a_fence_holds_the_writes_of_a_way_home_too():
    pending = mirror(MirrorState.PENDING_STOPPED, direction=REVERSE)
    assert phase_of(pending, is_fenced=True) is Phase.FENCED
    assert phase_of(mirror(MirrorState.PENDING_MIRROR), is_fenced=False) is Phase.FORWARD  # after the flip home


def test_options_of_the_link_and_the_record_are_in_the_route():
    found = route(mirror(fence_epoch=3))

    assert (found.ack, found.fence_epoch, found.link, found.source_topic) == (Ack.BOTH, 3, "l", "t")


def test_settled_by_record_by_event_or_by_being_stopped():
    assert not route(mirror()).settled
    assert route(mirror(settled=True)).settled
    assert route(mirror(), settled={"t"}).settled
    assert route(mirror(MirrorState.STOPPED)).settled


def test_producers_are_kept_while_a_retry_may_come_only():
    for record in (mirror(MirrorState.STOPPED, producers=TABLE), mirror(producers=TABLE)):
        assert route(record, retried={"t"}).producers == TABLE
        assert route(record, retried={"other"}).producers == ()


def test_writes_wait_while_it_is_not_known_which_are_retries():
    broken = mirror(MirrorState.STOPPED, producers=(*TABLE, ()), flipped_ms=1000)
    found = route(broken, retried={broken.mirror_topic})
    assert (found.phase, found.producers) == (Phase.FENCED, ())
    assert route(broken, retried=frozenset()).phase is Phase.SWITCHED


def test_topic_ids_lead_to_names():
    routing = routing_from(LINKS, [mirror(mirror_topic_id=topic_id_text(TOPIC_ID))])

    assert routing.topic_ids == {TOPIC_ID: "t"}


def test_a_mirror_without_its_link_has_no_route():
    assert routing_from({}, [mirror()]).topics == {}


def test_groups_have_the_prefix_of_a_link_that_gives_them_one():
    configs = {"link.prefix": "usa_", "consumer.group.prefix.enable": "true"}
    links = {
        "a": LinkRecord(name="a", link_id=1, source_cluster_id="A", client={}, configs=configs),
        "b": LinkRecord(name="b", link_id=2, source_cluster_id="B", client={}, configs={"link.prefix": "eu_"}),
    }

    routing = routing_from(links, [])

    assert [routing.group_at(cluster, "usa_g") for cluster in ("A", "B", "")] == ["g", "usa_g", "usa_g"]
