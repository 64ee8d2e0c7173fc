"""The state topic on a real broker: read back, fenced, and never half a change."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

from gateway.devcluster import DevCluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.state.codec import encode
from gateway.state.errors import ProducerFenced, StoreError
from gateway.state.gateway_records import PortRecord
from gateway.state.records import LinkRecord, ProducerEntry
from gateway.state.store import StateStore
from gateway.state.topic import StateTopic
from tests.support.control.mirror_records import mirror_record
from tests.support.waiting import wait_until_async

pytestmark = pytest.mark.slow

LINK = LinkRecord(name="l", link_id=1, source_cluster_id="S", client={"bootstrap.servers": "s:1"})

Opened = Callable[[], StateStore]


@pytest.fixture
def name() -> str:
    return f"state-{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def store_of(target: DevCluster, name: str) -> AsyncIterator[Opened]:
    """Makes processes that share one state topic."""
    made: list[StateStore] = []
    config = ClusterConfig.from_client_properties({"bootstrap.servers": target.bootstrap})

    def make() -> StateStore:
        log = StateTopic(config, uuid.uuid4().hex, topic=name, transactional_id=name)
        made.append(StateStore(config, log=log))
        return made[-1]

    yield make
    for store in made:
        await store.close()


async def test_a_restart_reads_what_was_there(store_of):
    first = store_of()
    await first.open()
    await first.lead()
    await first.put(LINK, PortRecord(1, 9293))
    for port in range(5):
        await first.put(PortRecord(2, 9300 + port))
    await first.put(PortRecord(3, 9400))
    await first.delete(PortRecord(3, 9400))

    second = store_of()
    await second.open()

    await asyncio.wait_for(second.read_up_to(first.applied), 15)  # a commit is read when its markers are written
    assert dict(second.links) == {"l": LINK}
    assert dict(second.ports) == {1: PortRecord(1, 9293), 2: PortRecord(2, 9304)}


async def test_the_topic_is_compacted_and_has_one_partition(store_of, target, name):
    store = store_of()
    await store.open()

    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, name)
    configs = await asyncio.to_thread(lambda: admin.describe_configs([resource])[resource].result(30))
    assert configs["cleanup.policy"].value == "compact"
    assert list((await asyncio.to_thread(admin.list_topics, timeout=30)).topics[name].partitions) == [0]


async def test_a_successor_fences_the_process_before(store_of):
    old = store_of()
    await old.open()
    await old.lead()
    await old.put(LINK)
    new = store_of()
    await new.open()
    await new.lead()

    with pytest.raises(ProducerFenced, match="taken over"):
        await old.put(PortRecord(1, 1))
    assert not old.ports

    await new.put(PortRecord(2, 2))
    assert (dict(new.links), dict(new.ports)) == ({"l": LINK}, {2: PortRecord(2, 2)})
    await old.read_up_to(new.applied)
    assert (dict(old.links), dict(old.ports)) == ({"l": LINK}, {2: PortRecord(2, 2)}), "it reads on"


async def test_a_follower_sees_each_change_whole(store_of):
    leader, follower = store_of(), store_of()
    await leader.open()
    await leader.lead()
    await follower.open()
    seen: list[set[int]] = []
    follower.subscribe(lambda: seen.append({record.port for record in follower.ports.values()}))
    with pytest.raises(ProducerFenced, match="does not lead"):
        await follower.put(PortRecord(1, 1))
    for port in range(30):
        await leader.put(*(PortRecord(node, port) for node in range(40)))
    await asyncio.wait_for(follower.read_up_to(leader.applied), 15)

    assert dict(follower.ports) == dict(leader.ports)
    assert all(len(ports) == 1 for ports in seen), "half a change was seen"


async def test_a_clock_that_is_days_ahead_does_not_matter(store_of, target, name):
    """Brokers since 3.6 refuse what is stamped more than an hour ahead of them, where they do not stamp it."""
    store = store_of()
    await store.open()
    await store.lead()
    done: list[object] = []
    ahead_ms = int((time.time() + 3 * 86_400) * 1000)
    producer = Producer({"bootstrap.servers": target.bootstrap, "log_level": 0})
    producer.produce(name, key=b"?", value=None, timestamp=ahead_ms, on_delivery=lambda error, _: done.append(error))
    producer.flush(30)
    assert done == [None]


async def test_leadership_goes_there_and_back(store_of):
    one, two = store_of(), store_of()
    for store in (one, two):
        await store.open()
    terms = []
    for store in (one, two, one):
        terms.append(await store.lead())
        await store.put(PortRecord(len(terms), 1))
        if store is two:
            await store.resign()
    assert terms == sorted(terms)
    await asyncio.wait_for(two.read_up_to(one.applied), 15)
    assert sorted(two.ports) == sorted(one.ports) == [1, 2, 3]
    assert (one.term, two.term) == (terms[2], terms[2])


async def test_an_idle_process_notices_its_successor(store_of):
    old = store_of()
    noticed = asyncio.Event()
    old.on_fenced = noticed.set
    await old.open()
    await old.lead()

    new = store_of()
    await new.open()
    await new.lead()

    await asyncio.wait_for(noticed.wait(), 15)


async def test_half_a_change_of_a_killed_process_is_never_seen(store_of, target, name):
    first = store_of()
    await first.open()
    await first.lead()
    await first.put(LINK)
    killed = Producer({"bootstrap.servers": target.bootstrap, "transactional.id": name})
    await asyncio.to_thread(killed.init_transactions, 30)
    killed.begin_transaction()
    half = replace(LINK, source_cluster_id="half")
    killed.produce(name, key=b"link/l", value=encode(half), partition=0)
    assert await asyncio.to_thread(killed.flush, 30) == 0  # on the broker, and not committed

    second = store_of()
    await second.open()

    assert second.links["l"] == LINK


async def test_a_record_larger_than_a_broker_takes_by_default(store_of):
    store = store_of()
    await store.open()
    await store.lead()
    entries = tuple(ProducerEntry(2**49 + i, 0, i * 7919, i * 7919 + 99, i * 104_729) for i in range(140_000))
    mirror = mirror_record(link="l", source_topic="t", mirror_topic="t", mirror_id=1, producers=(entries,))
    assert len(encode(mirror)) > 2_000_000

    await store.put(mirror)
    again = store_of()
    await again.open()

    await asyncio.wait_for(again.read_up_to(store.applied), 30)  # a commit is read when its markers are written
    assert again.mirrors["l", "t"] == mirror


async def test_a_topic_that_is_not_a_state_topic_is_left_alone(store_of, target, name):
    admin = AdminClient({"bootstrap.servers": target.bootstrap})
    created = admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])
    await asyncio.to_thread(created[name].result, 30)

    with pytest.raises(StoreError, match="not a compacted topic of one partition"):
        await store_of().open()


async def test_a_target_that_is_not_there_is_an_error_soon(unused_port, name):
    config = ClusterConfig.from_client_properties({"bootstrap.servers": f"127.0.0.1:{unused_port()}"})
    log = StateTopic(config, "x", topic=name, transactional_id=name)

    with pytest.raises(StoreError, match="could not be opened"):
        await log.open(3.0)
    await log.close()


async def test_a_target_that_is_cut_and_comes_back_loses_nothing(target, target_proxy, name):
    config = ClusterConfig.from_client_properties({"bootstrap.servers": target.proxied_bootstrap})
    store = StateStore(config, log=StateTopic(config, "x", topic=name, transactional_id=name))
    await store.open()
    await store.lead()
    await store.put(PortRecord(1, 1))
    target_proxy.cut()
    writing = asyncio.create_task(store.put(PortRecord(2, 2)))
    done, _ = await asyncio.wait({writing}, timeout=2)
    assert not done
    assert 2 not in store.ports

    target_proxy.mend()
    await asyncio.wait_for(writing, 60)
    await store.put(PortRecord(3, 3))

    assert sorted(store.ports) == [1, 2, 3]
    await store.close()


async def test_a_target_that_is_cut_for_longer_than_a_commit_takes_gets_no_late_commits(target, target_proxy, name):
    config = ClusterConfig.from_client_properties({"bootstrap.servers": target.proxied_bootstrap})
    log = StateTopic(config, "x", topic=name, transactional_id=name, commit_s=1.0)
    store = StateStore(config, log=log)
    await store.open()
    await store.lead()
    with target_proxy.being_cut():
        for port in (1, 2):  # what is not even asked to be committed never is
            with pytest.raises(StoreError, match="was not changed") as failed:
                await store.put(PortRecord(port, port))
            assert type(failed.value) is StoreError
        assert not store.ports

    async def written() -> bool:
        try:
            await store.put(PortRecord(3, 3))
        except StoreError:
            return False
        return True

    await wait_until_async(written, 60)
    seen = dict(store.ports)
    await store.close()
    again = StateStore(config, log=StateTopic(config, "y", topic=name, transactional_id=name))
    await again.open()

    assert seen == dict(again.ports) == {3: PortRecord(3, 3)}
    await again.close()
