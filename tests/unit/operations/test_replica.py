"""A gateway that follows has at hand what the records say: sources and mirrors."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import NotFound
from gateway.operations.replica import Replica
from gateway.operations.running_mirrors import run_by_records, run_topics_by_records
from gateway.state.mirror_states import is_mirroring
from gateway.state.records import LinkRecord, MirrorDirection, MirrorRecord, MirrorState, PartitionStart
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_engine import FakeEngine
from tests.support.fakes.fake_kafka import FakeKafka
from tests.support.waiting import wait_until_async

MIRROR = MirrorRecord(
    link="l", source_topic="t", mirror_topic="t", mirror_id=1, starts=(PartitionStart(0, 0),), readable=True
)
KEY = ("l", "t")
OTHER = "other:9092"
LINK = LinkRecord(name="l", link_id=1, source_cluster_id="s", client={})


@pytest.fixture
async def replica(plane: Plane):
    await plane.with_link()
    plane.engine.links.clear()
    made = Replica(plane.store, plane.parts.sources, plane.engine)
    await made.start()
    yield made
    await made.close()


async def test_links_and_mirrors_are_started_and_stopped_by_the_records(plane: Plane, replica: Replica) -> None:
    assert set(plane.engine.links) == {"l"}
    await plane.store.put(MIRROR)
    await wait_until_async(lambda: KEY in plane.engine.running, 5.0)
    await plane.store.put(replace(MIRROR, state=MirrorState.PAUSED))
    await wait_until_async(lambda: KEY not in plane.engine.running, 5.0)
    await plane.store.put(replace(MIRROR, state=MirrorState.ACTIVE))
    await wait_until_async(lambda: KEY in plane.engine.running, 5.0)
    await plane.store.delete(MIRROR, plane.store.links["l"])
    await wait_until_async(lambda: not plane.engine.running and not plane.engine.links, 5.0)
    assert "l" not in plane.parts.sources.clusters


async def test_a_mirror_that_is_another_one_now_is_started_anew(plane: Plane, replica: Replica) -> None:
    await plane.store.put(MIRROR)
    await wait_until_async(lambda: KEY in plane.engine.running, 5.0)
    grown = replace(MIRROR, starts=(PartitionStart(0, 0),) * 2)
    await plane.store.put(grown)
    await wait_until_async(lambda: plane.engine.running.get(KEY) == grown, 5.0)


async def test_while_this_gateway_leads_its_operations_do_it(plane: Plane, replica: Replica) -> None:
    await replica.pause()
    await plane.store.put(MIRROR)
    assert not plane.engine.running
    replica.go_on()
    await wait_until_async(lambda: KEY in plane.engine.running, 5.0)


@pytest.mark.parametrize(
    "now",
    [
        replace(MIRROR, starts=(PartitionStart(0, 0),) * 2),
        changed(MIRROR, direction=MirrorDirection.REVERSE),
        changed(MIRROR, failback_epoch=1),
        replace(MIRROR, state=MirrorState.STOPPED),
        None,
    ],
    ids=["more partitions", "mirrored back", "failed back", "stopped", "deleted"],
)
async def test_what_another_leader_did_meanwhile_is_made_up_for(
    plane: Plane, replica: Replica, now: MirrorRecord | None
) -> None:
    await replica.pause()
    await plane.store.put(MIRROR)
    plane.engine.start_mirror(MIRROR)  # by an operation of this gateway's term
    await (plane.store.delete(MIRROR) if now is None else plane.by_hand(now))
    replica.go_on()
    wanted = {KEY: now} if now is not None and is_mirroring(now.state) else {}
    await wait_until_async(lambda: plane.engine.running == wanted, 5.0)


@pytest.mark.parametrize("anew", [True, False])
async def test_a_link_of_its_own_term_that_another_leader_has_deleted_is_gone(
    plane: Plane, replica: Replica, anew: bool
) -> None:
    """Its source and its mirror, too, when a link was created under the same name since."""
    await replica.pause()
    old = await plane.with_link("m")
    await plane.store.put(of_m := replace(MIRROR, link="m"))
    plane.engine.start_mirror(of_m)
    new = replace(old, link_id=7, client={"bootstrap.servers": OTHER})
    plane.reachable[OTHER] = other = FakeKafka("O")
    await plane.store.delete(old, of_m)
    assert "m" not in plane.sources.clusters, "nothing more is sent to its source from that moment on"
    if anew:
        await plane.store.put(new)
    replica.go_on()
    wanted = {"m": new} if anew else {}
    await wait_until_async(lambda: {**plane.engine.links} == {"l": plane.store.links["l"], **wanted}, 5.0)
    assert not plane.engine.running
    assert plane.sources.clusters.get("m") is (other.cluster if anew else None)


async def test_a_link_that_is_another_one_is_not_reached_by_its_name(plane: Plane, replica: Replica) -> None:
    old = plane.store.links["l"]
    await plane.store.put(new := replace(old, link_id=7))
    await wait_until_async(lambda: plane.engine.links == {"l": new}, 5.0)
    with pytest.raises(NotFound, match="link 'l' does not exist"):
        await plane.sources.reach(old)
    assert await plane.sources.reach(new) is plane.source


async def test_a_mirror_that_runs_as_the_record_says_goes_on(plane: Plane, replica: Replica) -> None:
    await plane.store.put(MIRROR)
    await wait_until_async(lambda: KEY in plane.engine.running, 5.0)
    await replica.pause()
    plane.engine.log.clear()
    replica.go_on()
    await plane.store.put(changed(MIRROR, pause_epoch=1), replace(MIRROR, mirror_topic="u", mirror_id=2))
    await wait_until_async(lambda: ("l", "u") in plane.engine.running, 5.0)
    assert plane.engine.log == [("start_mirror", "u")]


async def test_a_link_that_is_changed_goes_on_by_its_new_configs(plane: Plane, replica: Replica) -> None:
    """A follower learns of it by the record alone: nothing is stopped, and the source is reached in the new way."""
    await plane.store.put(MIRROR)
    await wait_until_async(lambda: KEY in plane.engine.running, 5.0)
    plane.engine.log.clear()
    link = plane.store.links["l"]
    changed_link = replace(link, client={**link.client, "client.id": "new"}, configs={"ack": "both"})
    await plane.store.put(changed_link)

    await wait_until_async(lambda: plane.engine.links["l"] == changed_link, 5.0)
    assert plane.engine.log == [("update_link", "l")]
    assert plane.source.configs[-1].client_id == "new"
    assert plane.source.closed == 0
    assert (await plane.parts.sources.reach(changed_link)) is plane.source


RECORDS = st.builds(
    changed,
    st.sampled_from([replace(MIRROR, mirror_topic=name) for name in ("t", "u")]),
    link=st.sampled_from(["l", "m", "unknown"]),
    state=st.sampled_from([MirrorState.ACTIVE, MirrorState.PAUSED, MirrorState.STOPPED]),
    created=st.booleans(),
    repairs=st.integers(0, 1),
)


@given(st.lists(st.tuples(st.sampled_from(["t", "u"]), st.none() | RECORDS), max_size=12))
def test_what_has_changed_is_brought_in_line_as_if_all_were_looked_at(
    story: list[tuple[str, MirrorRecord | None]],
) -> None:
    async def told() -> None:
        one, whole = FakeEngine(), FakeEngine()
        for engine in (one, whole):
            engine.links = dict.fromkeys(("l", "m"), LINK)
        records: dict[str, MirrorRecord] = {}
        for topic, record in story:
            records.pop(topic, None)
            if record is not None:
                records[topic] = replace(record, mirror_topic=topic)
            await run_topics_by_records(one, [topic], records.get)
            await run_by_records(whole, lambda: [each for each in records.values() if each.link in whole.links])
            assert one.running == whole.running

    asyncio.run(told())
