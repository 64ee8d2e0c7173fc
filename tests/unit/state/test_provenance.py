"""Which cluster a batch is from, by its producer id and the records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.state.producer_ids import (
    GATEWAY_PID_BASE,
    MAX_FAILBACK_EPOCH,
    MAX_LINK_ID,
    MAX_MIRROR_ID,
    MirrorWriter,
    as_issued,
    first_mirror_id,
    in_failback_epoch,
    is_gateway_issued,
    mirror_of,
    mirror_producer_id,
    shown_as,
)
from gateway.state.provenance import kind_of_writer, origin_of, provenance_of, sources_by_tag, writer_in_words
from gateway.state.records import LinkRecord, MirrorRecord, OriginRecord, Upstream

CLUSTERS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=22)


@given(st.integers(0, MAX_LINK_ID), st.integers(0, MAX_MIRROR_ID), st.integers(0, MAX_FAILBACK_EPOCH), st.booleans())
def test_a_mirrors_id_tells_its_link_in_every_failback_epoch(
    link: int, mirror: int, failback_epoch: int, reverse: bool
) -> None:
    found = mirror_of(mirror_producer_id(link, mirror, failback_epoch, reverse=reverse))
    assert found == MirrorWriter(link, mirror, failback_epoch, reverse)


@given(st.integers(0, GATEWAY_PID_BASE - 1), CLUSTERS, st.integers(0, MAX_FAILBACK_EPOCH))
def test_a_clients_id_is_no_mirrors(issued: int, cluster: str, failback_epoch: int) -> None:
    assert mirror_of(issued) is None
    shown = (issued % 2**34) + shown_as(cluster)
    assert is_gateway_issued(shown)
    assert as_issued(shown) == issued % 2**34
    assert mirror_of(in_failback_epoch(shown, failback_epoch)) is None
    assert mirror_of(-1) is None


def test_ids_of_older_gateways_go_back_as_they_were_issued() -> None:
    assert as_issued(GATEWAY_PID_BASE + 1234) == 1234


@given(CLUSTERS)
def test_first_mirror_ids_leave_room(cluster: str) -> None:
    assert 1 <= first_mirror_id(cluster) <= 2**31
    assert first_mirror_id("") == 1


def test_two_targets_show_and_write_under_other_ids() -> None:
    assert shown_as("one") != shown_as("other")
    assert first_mirror_id("one") != first_mirror_id("other")


def test_the_source_of_a_deleted_link_is_known() -> None:
    links = {"new": LinkRecord(name="new", link_id=2, source_cluster_id="Y", client={})}
    sources = sources_by_tag({1: OriginRecord(1, "old", "X")}, links)
    assert origin_of(mirror_producer_id(1, 9, 4), sources, "T") == "X"
    assert origin_of(mirror_producer_id(2, 9), sources, "T") == "Y"
    assert origin_of(mirror_producer_id(3, 9), sources, "T") == ""
    assert origin_of(GATEWAY_PID_BASE + 7, sources, "T") == "T"
    assert origin_of(-1, sources, "T") == "T"


def test_as_described() -> None:
    link = LinkRecord(name="l", link_id=3, source_cluster_id="X", client={})
    mirror = MirrorRecord(
        link="l", source_topic="t", mirror_topic="t", mirror_id=8, upstream=(Upstream("W", "u", "t"),)
    )
    found = provenance_of(mirror, link)
    assert (found.link_tag, found.source_cluster_id, found.producer_id) == (3, "X", mirror_producer_id(3, 8))
    assert found.upstream == mirror.upstream


def test_in_words() -> None:
    back = mirror_producer_id(3, 8, 2, reverse=True)
    assert writer_in_words(back) == "the mirror of link tag 3, back to the source, failback epoch 2"
    assert writer_in_words(in_failback_epoch(GATEWAY_PID_BASE + 1, 4)) == "a client of a gateway"
    assert writer_in_words(17) == "a client"


@given(st.integers(-1, 2**63 - 1))
def test_there_is_one_id_for_all_clients_and_its_words_are_theirs(producer_id: int) -> None:
    kind = kind_of_writer(producer_id)
    assert writer_in_words(kind) == writer_in_words(producer_id)
    assert kind in (producer_id, -1, GATEWAY_PID_BASE)
