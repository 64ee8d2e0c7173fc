"""The client against fake brokers: view, failover, coordinators."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme

from gateway.kafka import metadata
from gateway.kafka.cluster import CONTROL_LANE, BrokerError, Cluster, ClusterUnavailable, ClusterView
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.view import next_view
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import FindCoordinatorResponse, ListGroupsRequest, ListGroupsResponse
from tests.support.brokers.quick_clusters import OpenCluster, quick
from tests.support.fakes.fake_broker import HANG_UP, SILENCE, Request
from tests.support.fakes.fake_cluster import FakeCluster
from tests.support.waiting import wait_until_async


@pytest.fixture
async def three() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(3) as fake:
        fake.leaders = {"a": [1, 2], "b": [3]}
        yield fake


def always(reply: Any, _: Request) -> Any:
    return reply


def listing(groups: tuple[str, ...] = ()) -> Any:
    item = ListGroupsResponse.ListedGroup
    listed = [item(group_id=g, protocol_type="consumer", group_state="Empty", group_type="classic") for g in groups]
    return ListGroupsResponse(throttle_time_ms=0, error_code=0, groups=listed)


async def test_start_fetches_every_topic(three: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(three.bootstrap)

    assert cluster.view.cluster_id == "fake"
    assert sorted(cluster.view.brokers) == [1, 2, 3]
    assert set(cluster.view.topics) == {"a", "b"}
    assert [cluster.leader("a", 0), cluster.leader("a", 1), cluster.leader("b", 0)] == [1, 2, 3]
    assert cluster.leader("a", 2) is None
    assert cluster.leader("c", 0) is None
    assert [cluster.leader_of_all("a", [0]), cluster.leader_of_all("a", [1, 1])] == [1, 2]
    assert [cluster.leader_of_all(*asked) for asked in (("a", [0, 1]), ("a", [0, 2]), ("c", [0]))] == [None] * 3
    assert cluster.available
    assert cluster.last_error == ""


async def test_metadata_never_creates_a_topic(three: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(three.bootstrap)
    view = await cluster.refresh(["nope"])

    assert "nope" not in view.topics
    assert not any(request.message.allow_auto_topic_creation for request in three.asked(ApiKey.METADATA))


async def test_refreshes_at_the_same_time_share_a_request(three: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(three.bootstrap)
    before = len(three.asked(ApiKey.METADATA))

    await asyncio.gather(*(cluster.refresh([topic]) for topic in "ab" * 50))

    # One may have begun before the rest were asked for.
    assert len(three.asked(ApiKey.METADATA)) - before <= 2


async def test_a_refresh_begins_after_the_call_that_waits_for_it(three: FakeCluster, client: OpenCluster) -> None:
    """An answer that was on its way already may be older than what the caller knows to have changed."""
    cluster = await client(three.bootstrap)
    answer = three.brokers[1].handlers[ApiKey.METADATA]
    gate = asyncio.Event()

    async def slow(request: Request) -> Any:
        old = answer(request)
        await gate.wait()
        return old

    three.on(ApiKey.METADATA, slow)
    before = len(three.asked(ApiKey.METADATA))
    first = asyncio.create_task(cluster.refresh(["a"]), name="first")
    await wait_until_async(lambda: len(three.asked(ApiKey.METADATA)) > before)
    three.leaders["a"] = [3, 3]
    second = asyncio.create_task(cluster.refresh(["a"]), name="second")
    await asyncio.wait((second,), timeout=0.02)
    gate.set()

    assert (await first).topics["a"].partitions[0].leader == 1
    assert (await second).topics["a"].partitions[0].leader == 3


async def test_subscribers_hear_of_changes_only(
    three: FakeCluster, client: OpenCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = await client(three.bootstrap)
    views: list[ClusterView] = []

    def fail(_: ClusterView) -> None:
        raise RuntimeError("a subscriber's bug")

    cluster.on_view.extend((fail, views.append))
    await cluster.refresh()
    assert views == []
    three.leaders["b"] = [1]
    await cluster.refresh(["b"])

    assert [view.topics["b"].partitions[0].leader for view in views] == [1]
    assert views[0] is cluster.view
    assert "a subscriber's bug" in caplog.text


async def test_invalidate_refreshes_soon(three: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(three.bootstrap)
    three.leaders["a"] = [2, 2]
    cluster.invalidate("a")

    await wait_until_async(lambda: cluster.leader("a", 0) == 2, 5)


@pytest.fixture
async def zombie(three: FakeCluster) -> FakeCluster:
    """Broker 1 has lost the other two: it goes on to tell what it knew, and broker 3 leads what it led."""
    old = FakeCluster()
    old.brokers, old.leaders, old.epochs = three.brokers, three.leaders, {"a": [4, 4], "b": [4]}
    three.brokers[1].handlers[ApiKey.METADATA] = old._metadata
    three.leaders, three.epochs = {"a": [3, 2], "b": [3]}, {"a": [5, 4], "b": [4]}
    return three


def at_first(zombie: FakeCluster) -> str:
    """`bootstrap.servers` of the zombie alone."""
    return f"127.0.0.1:{zombie.brokers[1].port}"


async def test_a_broker_that_is_cut_off_is_not_believed_for_ever(zombie: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(at_first(zombie))
    assert cluster.leader("a", 0) == 1

    cluster.invalidate("a")
    await wait_until_async(lambda: cluster.leader("a", 0) == 3, 5)
    for _ in range(4):  # back to the zombie, and on: the newer leader epoch is what counts
        cluster.invalidate("a")
        assert (await cluster.refresh(["a"])).topics["a"].partitions[0].leader == 3
    assert sum(broker.open_connections for broker in zombie.brokers.values()) <= 2


async def test_a_coordinator_that_is_cut_off_is_not_asked_who_it_is(zombie: FakeCluster, client: OpenCluster) -> None:
    old = FakeCluster()
    old.brokers, old.coordinators = zombie.brokers, {"g": 1}
    zombie.brokers[1].handlers[ApiKey.FIND_COORDINATOR] = old._coordinator
    zombie.coordinators = {"g": 3}
    cluster = await client(at_first(zombie))
    await cluster.connection(1, CONTROL_LANE, 5.0)  # whoever is connected is asked first
    assert await cluster.coordinator("g") == 1

    cluster.invalidate_coordinator("g")
    assert await cluster.coordinator("g") == 3


async def test_who_finds_out_late_that_a_coordinator_is_gone_has_nobody_asked_again(
    three: FakeCluster, client: OpenCluster
) -> None:
    cluster = await client(three.bootstrap)
    three.coordinators = {"g": 2}
    assert await cluster.coordinator("g") == 2
    three.coordinators = {"g": 3}
    cluster.invalidate_coordinator("g", 2)
    assert await cluster.coordinator("g") == 3

    three.coordinators = {"g": 1}
    cluster.invalidate_coordinator("g", 2)
    assert await cluster.coordinator("g") == 3
    cluster.invalidate_coordinator("g", 3)
    assert await cluster.coordinator("g") == 1


async def test_the_one_broker_that_there_is_is_asked_again(zombie: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(at_first(zombie))
    for node_id in (2, 3):
        await zombie.brokers[node_id].stop()
    for _ in range(3):
        assert await cluster.coordinator("g", timeout_s=3.0) == 1
        cluster.invalidate_coordinator("g")


async def test_the_periodic_refresh_goes_from_broker_to_broker(zombie: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(at_first(zombie), metadata_max_age_ms="50")

    await wait_until_async(lambda: all(broker.asked(ApiKey.METADATA) for broker in zombie.brokers.values()), 5)
    assert cluster.leader("a", 0) == 3
    await wait_until_async(lambda: sum(broker.open_connections for broker in zombie.brokers.values()) <= 2, 5)


async def test_another_broker_that_cannot_be_reached_holds_no_refresh_up(
    zombie: FakeCluster, client: OpenCluster
) -> None:
    cluster = await client(at_first(zombie))
    for node_id in (2, 3):
        await zombie.brokers[node_id].stop()

    for _ in range(3):
        cluster.invalidate("a")
        assert (await cluster.refresh(["a"])).topics["a"].partitions[0].leader == 1
    assert cluster.available


async def test_the_view_is_refreshed_from_time_to_time(three: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(three.bootstrap, metadata_max_age_ms="50")
    three.leaders["c"] = [2]
    del three.leaders["b"]

    await wait_until_async(lambda: set(cluster.view.topics) == {"a", "c"}, 5)


async def test_a_broker_that_dies_is_passed_over(three: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(three.bootstrap)
    three.on(ApiKey.LIST_GROUPS, lambda _: listing())
    for node_id in (1, 2):
        await three.brokers[node_id].stop()
        three.hidden.add(node_id)

    for _ in range(5):
        await cluster.request(ListGroupsRequest())
        await cluster.refresh()

    assert sorted(cluster.view.brokers) == [3]
    assert len(three.brokers[3].asked(ApiKey.LIST_GROUPS)) == 5


async def test_a_request_to_any_broker_is_given_to_another_when_one_hangs_up(
    three: FakeCluster, client: OpenCluster
) -> None:
    cluster = await client(three.bootstrap)
    for node_id, reply in {1: HANG_UP, 2: SILENCE, 3: listing()}.items():
        three.brokers[node_id].handlers[ApiKey.LIST_GROUPS] = partial(always, reply)

    for _ in range(3):
        assert (await cluster.request(ListGroupsRequest(), timeout_s=3)).error_code == 0


async def test_a_request_to_one_broker_is_sent_once(three: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(three.bootstrap)
    three.on(ApiKey.LIST_GROUPS, lambda _: HANG_UP)

    with pytest.raises(ClusterUnavailable, match=r"closed by the broker|reset"):
        await cluster.request(ListGroupsRequest(), node_id=2)

    assert len(three.asked(ApiKey.LIST_GROUPS)) == 1


async def test_when_no_broker_answers_the_deadline_holds(three: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(three.bootstrap)
    three.on(ApiKey.LIST_GROUPS, lambda _: SILENCE)
    loop = asyncio.get_running_loop()
    began = loop.time()

    with pytest.raises(ClusterUnavailable, match=r"no answer to ListGroups within 0\.\d"):  # time enough to answer in
        await cluster.request(ListGroupsRequest(), timeout_s=0.3)

    assert 0.25 <= loop.time() - began < 1.5


async def test_a_broker_that_moved_is_found_again(three: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(three.bootstrap)
    first = await cluster.connection(2)
    assert cluster.cached_connection(2) is first
    await three.brokers[2].stop()
    three.brokers[2].port = 0
    await three.brokers[2].listen()

    second = await cluster.connection(2)

    assert second.port == three.brokers[2].port
    assert first.closed


async def test_lanes_have_connections_of_their_own(three: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(three.bootstrap)
    found = [await cluster.connection(1, lane) for lane in (0, 1, CONTROL_LANE)]

    assert len(set(map(id, found))) == 3
    assert cluster.cached_connection(1, 2) is None


async def test_a_callback_that_hears_of_a_break_is_not_given_the_broken_connection(
    three: FakeCluster, client: OpenCluster
) -> None:
    cluster = await client(three.bootstrap)
    three.on(ApiKey.LIST_GROUPS, lambda _: SILENCE)
    connection = await cluster.connection(1)
    found: list[object] = []
    connection.send(ApiKey.LIST_GROUPS, 0, (), lambda _: found.append(cluster.cached_connection(1)))
    connection.close("broken")

    assert found == [None]


async def test_a_node_that_joined_is_found_by_asking_once(three: FakeCluster, client: OpenCluster) -> None:
    three.hidden = {3}
    cluster = await client(three.bootstrap)
    assert 3 not in cluster.view.brokers
    three.hidden = set()

    assert (await cluster.connection(3)).port == three.brokers[3].port
    with pytest.raises(ClusterUnavailable, match="broker 9 is not in the cluster"):
        await cluster.connection(9)


async def test_starting_without_a_cluster_says_why_and_goes_on_trying(three: FakeCluster) -> None:
    port = three.brokers[1].port
    for broker in three.brokers.values():
        await broker.stop()
    cluster = Cluster(quick(f"127.0.0.1:{port},no.such.host.invalid:1"))
    with pytest.raises(ClusterUnavailable, match=rf"127.0.0.1:{port}: connection refused; no.such.host.invalid:1: the"):
        await cluster.start(timeout_s=0.5)
    assert not cluster.available
    assert "connection refused" in cluster.last_error
    assert cluster.client_errors["connection"] > 0

    for broker in three.brokers.values():
        await broker.listen()

    await wait_until_async(lambda: cluster.available, 5)
    assert cluster.last_error == ""
    await cluster.close()


async def test_losing_the_cluster_is_noticed_without_waiting_for_the_next_refresh(
    three: FakeCluster, client: OpenCluster
) -> None:
    cluster = await client(three.bootstrap)
    for broker in three.brokers.values():
        await broker.stop()

    await wait_until_async(lambda: not cluster.available, 5)
    with pytest.raises(ClusterUnavailable, match="connection refused"):
        await cluster.refresh(timeout_s=0.1)
    assert set(cluster.view.topics) == {"a", "b"}


async def test_a_broker_that_says_nothing_is_passed_over(
    three: FakeCluster, client: OpenCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.kafka.metadata._TRY_S", 0.1)
    cluster = await client(three.bootstrap)
    answer = three.brokers[1].handlers[ApiKey.METADATA]
    quiet = next(broker for broker in three.brokers.values() if broker.asked(ApiKey.METADATA))
    quiet.handlers[ApiKey.METADATA] = lambda _: SILENCE
    three.leaders["new"] = [1]

    assert "new" in (await cluster.refresh()).topics
    quiet.handlers[ApiKey.METADATA] = answer


async def test_an_address_that_now_belongs_to_another_cluster_is_refused(
    three: FakeCluster, client: OpenCluster
) -> None:
    cluster = await client(three.bootstrap)
    three.cluster_id = "other"

    with pytest.raises(ClusterUnavailable, match="is a broker of another cluster: other, not fake"):
        await cluster.refresh(timeout_s=0.3)
    assert cluster.view.cluster_id == "fake"


async def test_closing_ends_everything(three: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(three.bootstrap)
    await cluster.connection(1)
    three.on(ApiKey.METADATA, lambda _: SILENCE)
    waiting = asyncio.create_task(cluster.refresh(), name="waiting")
    await asyncio.wait((waiting,), timeout=0.02)
    await cluster.close()

    with pytest.raises(ClusterUnavailable, match="closed"):
        await waiting
    with pytest.raises(ClusterUnavailable, match="closed"):
        await cluster.connection(1)
    with pytest.raises(ClusterUnavailable, match="closed"):
        await cluster.refresh(timeout_s=0.2)
    await wait_until_async(lambda: not any(broker.open_connections for broker in three.brokers.values()))


async def test_coordinators_are_asked_for_once(three: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(three.bootstrap)
    three.coordinators = {"g": 2, "h": 3}

    assert [await cluster.coordinator(group) for group in "ghgh"] == [2, 3, 2, 3]
    assert len(three.asked(ApiKey.FIND_COORDINATOR)) == 2
    three.coordinators["g"] = 1
    cluster.invalidate_coordinator("g")
    assert await cluster.coordinator("g") == 1


def refused(code: int) -> Any:
    item = FindCoordinatorResponse.Coordinator(
        key="g", error_code=code, error_message=None, node_id=-1, host="", port=-1
    )
    return FindCoordinatorResponse(error_code=code, coordinators=[item])


async def test_a_coordinator_that_is_not_there_yet_is_waited_for(three: FakeCluster, client: OpenCluster) -> None:
    cluster = await client(three.bootstrap)
    answer = three.brokers[1].handlers[ApiKey.FIND_COORDINATOR]
    codes = [int(ErrorCode.COORDINATOR_NOT_AVAILABLE), int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
    three.on(ApiKey.FIND_COORDINATOR, lambda request: refused(codes.pop(0)) if codes else answer(request))

    assert await cluster.coordinator("g") == 1
    assert len(three.asked(ApiKey.FIND_COORDINATOR)) == 3


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, BrokerError),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ClusterUnavailable),
    ],
)
async def test_no_coordinator(three: FakeCluster, client: OpenCluster, code: ErrorCode, error: type[Exception]) -> None:
    cluster = await client(three.bootstrap)
    three.on(ApiKey.FIND_COORDINATOR, lambda _: refused(int(code)))

    with pytest.raises(error, match=f"coordinator of group g: {code.name}"):
        await cluster.coordinator("g", timeout_s=0.2)


async def test_a_coordinator_that_falls_silent_after_a_refusal(three: FakeCluster, client: OpenCluster) -> None:
    """The refusal says more than that the last question had no time left to be answered."""
    cluster = await client(three.bootstrap)
    asked, end = 0, asyncio.Event()

    async def answer(_: Request) -> Any:
        nonlocal asked
        asked += 1
        if asked > 1:
            await end.wait()
        return refused(int(ErrorCode.COORDINATOR_NOT_AVAILABLE))

    three.on(ApiKey.FIND_COORDINATOR, answer)
    with pytest.raises(ClusterUnavailable, match="coordinator of group g: COORDINATOR_NOT_AVAILABLE"):
        await cluster.coordinator("g", timeout_s=0.3)
    end.set()
    assert asked > 1


async def test_files_of_no_use_are_told_by_each_connection_and_found_when_they_come(tmp_path: Path) -> None:
    """A stored link must not stop a gateway at its start."""
    missing = tmp_path / "ca.pem"
    properties = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", "ssl.ca.location": str(missing)}
    config = ClusterConfig.from_client_properties(properties, reads_files=False)
    cluster = Cluster(config)
    try:
        with pytest.raises(ClusterUnavailable, match=r"ssl.ca.location: cannot read .*ca.pem"):
            await cluster.start(0.3)
        missing.write_bytes(trustme.CA().cert_pem.bytes())
        with pytest.raises(ClusterUnavailable, match="connection refused"):
            await cluster.start(0.3)
    finally:
        await cluster.close()


async def test_what_was_told_before_is_not_read_again(
    three: FakeCluster, client: OpenCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, read = await client(three.bootstrap), list[object]()
    await cluster.refresh(["a"])

    def noted(*told: Any) -> ClusterView:
        read.append(told)
        return next_view(*told)

    monkeypatch.setattr(metadata, "next_view", noted)
    before = cluster.view
    await cluster.refresh(["a"])
    await cluster.refresh(["a"])
    assert (read, cluster.view) == ([], before)
    three.leaders["a"] = [1, 3]
    assert (await cluster.refresh(["a"])).topics["a"].partitions[1].leader == 3
    three.leaders["a"] = [1, 2]
    assert (await cluster.refresh(["a"])).topics["a"].partitions[1].leader == 2, "it was told before, and is news"


async def test_what_is_told_counts_for_the_view_that_it_made(three: FakeCluster, client: OpenCluster) -> None:
    """Another question has changed the view since: the answer to the first one is read anew."""
    cluster = await client(three.bootstrap)
    await cluster.refresh(["a", "b"])
    old, three.leaders["a"] = three.leaders["a"], [3, 3]
    await cluster.refresh(["a"])
    three.leaders["a"] = old
    view = await cluster.refresh(["a", "b"])
    assert [view.topics["a"].partitions[index].leader for index in range(2)] == old
