"""What a gateway knows of transactional producers, on coordinators and kept records that are played."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from gateway.cutover.write_pause.rules.routing import RoutingTable, TopicRoute, WritePhase, routing_of
from gateway.proxy.produce.forwarder import Forwarder
from gateway.proxy.rules.transactional_ids import OWN, ProducerIdentity, ProducerRecord, TransactionSide, merged
from gateway.proxy.rules.transactional_producers import Admission, PauseState, Transaction, TransactionalProducer
from gateway.proxy.session.stats import ProxyStats
from gateway.proxy.transactions import transactions as transactions_module
from gateway.proxy.transactions.adding import HOLD_S, TransactionAdding
from gateway.proxy.transactions.coordinators import Refused, SeenTransaction, Unseen
from gateway.proxy.transactions.placement import TopicPlacements
from gateway.proxy.transactions.transactions import Transactions
from gateway.proxy.transactions.write_pause import TransactionPauses
from protocol.errors import ErrorCode
from protocol.messages import EndTxnResponse
from tests.support.control.pausing import in_phase

CLIENT, ELSEWHERE = ProducerIdentity(7, 3), ProducerIdentity(90, 5)
SOURCE = TransactionSide("source-id")
NOTHING = frozenset[str]()


class FakeCoordinators:
    """`seen`: what the coordinator of a place says; an exception is raised."""

    def __init__(self) -> None:
        self.seen: dict[TransactionSide, SeenTransaction | Exception | None] = {}
        self.initialised: list[TransactionSide] = []
        self.open: frozenset[str] = frozenset()
        self.ends: list[tuple[TransactionSide, Any]] = []
        self.waits_for: asyncio.Event | None = None

    async def call(self, side: TransactionSide, transactional_id: str, message: Any, cap: int) -> Any:
        """As a coordinator answers an EndTxn: the repeat of the last end is none, its opposite an error."""
        self.ends.append((side, message))
        seen = self.seen.get(side)
        assert isinstance(seen, SeenTransaction)
        opposite = "CompleteAbort" if message.committed else "CompleteCommit"
        return EndTxnResponse(
            throttle_time_ms=0,
            error_code=int(ErrorCode.INVALID_TXN_STATE if seen.state == opposite else ErrorCode.NONE),
        )

    def noticed(self, side: TransactionSide, transactional_id: str, code: int) -> None:
        pass

    def cluster_of(self, link: str) -> str:
        return f"{link}-id"

    def has(self, side: TransactionSide) -> bool:
        return True

    async def describe(self, side: TransactionSide, transactional_id: str) -> SeenTransaction | None:
        if self.waits_for is not None:
            await self.waits_for.wait()
        found = self.seen.get(side)
        if isinstance(found, Exception):
            raise found
        return found

    async def init(self, side: TransactionSide, name: str, timeout_ms: int, expected: object) -> ProducerIdentity:
        self.initialised.append(side)
        return ELSEWHERE

    async def offsets_name_of(self, side: TransactionSide, group: str) -> str | None:
        return None

    async def unended(self, side: TransactionSide) -> frozenset[str]:
        return self.open


class FakeIdentities:
    def __init__(self) -> None:
        self.records: dict[str, ProducerRecord] = {}

    async def current(self, name: str) -> ProducerRecord | None:
        return self.records.get(name)

    async def all(self) -> list[ProducerRecord]:
        return list(self.records.values())

    async def keep(self, record: ProducerRecord) -> ProducerRecord:
        name = record.transactional_id
        self.records[name] = merged(self.records.get(name), record)
        return self.records[name]


class Lab:
    def __init__(self) -> None:
        self.routing = RoutingTable()
        self.coordinators, self.identities, self.now = FakeCoordinators(), FakeIdentities(), 0.0
        self.alone = True
        self.placements = TopicPlacements(self.routing, cast("Any", self.coordinators))
        self.transactions = Transactions(
            self.placements,
            cast("Any", self.coordinators),
            cast("Any", self.identities),
            lambda: self.now,
            alone=lambda: self.alone,
        )
        self.forwarder = Forwarder(lambda: self.now)
        self.pauses = TransactionPauses(self.transactions, self.placements, lambda: self.now)
        self.forwarder.transactions = self.pauses
        self.route(WritePhase.FORWARD)

    def route(self, phase: WritePhase) -> None:
        routes = {
            name: TopicRoute(link="source", mirror_topic=name, source_topic=f"on-source-{name}", pause=in_phase(phase))
            for name in ("a", "b")
        }
        self.routing.publish(routing_of(routes))

    def kept(self) -> None:
        self.identities.records["tx"] = ProducerRecord("tx", CLIENT, 60_000, {SOURCE: ELSEWHERE})

    def seen(self, state: str, *topics: str, identity: ProducerIdentity = ELSEWHERE) -> None:
        self.coordinators.seen[SOURCE] = SeenTransaction(identity, state, 60_000, frozenset(topics))


def test_each_failback_of_any_topic_is_a_failback_epoch(lab: Lab) -> None:
    """Else a topic that fails back second meets an id on the target that it had there after the first one did."""

    def failback_epoch(**homes: int) -> int:
        switched = in_phase(WritePhase.SWITCHED)
        routes = {
            name: TopicRoute(link="source", mirror_topic=name, source_topic=name, pause=switched, failback_epoch=n)
            for name, n in homes.items()
        }
        lab.routing.publish(routing_of(routes))
        return lab.placements.failback_epoch()

    seen = [failback_epoch(a=0, b=0), failback_epoch(a=1, b=0), failback_epoch(a=1, b=1), failback_epoch(a=1, b=2)]
    assert seen == sorted(set(seen))


@pytest.fixture
def lab() -> Lab:
    return Lab()


async def test_a_transaction_that_an_earlier_process_has_seen_begin_is_found(lab: Lab) -> None:
    lab.kept()
    lab.coordinators.seen[OWN] = SeenTransaction(CLIENT, "Empty", 60_000, NOTHING)
    lab.seen("Ongoing", "on-source-a")
    producer = await lab.transactions.identify("tx", CLIENT)
    assert producer.open is not None
    assert (producer.open.side, producer.open.topics) == (SOURCE, {"a"})
    assert producer.end_place(commit=True) == SOURCE
    assert lab.transactions.known("tx", CLIENT) is producer


@pytest.mark.parametrize("commit", [True, False])
async def test_a_repeated_end_after_a_restart_goes_where_one_ended_like_that(lab: Lab, commit: bool) -> None:
    lab.kept()
    lab.coordinators.seen[OWN] = SeenTransaction(
        CLIENT, "CompleteAbort" if commit else "CompleteCommit", 60_000, NOTHING
    )
    lab.seen("CompleteCommit" if commit else "CompleteAbort")
    producer = await lab.transactions.identify("tx", CLIENT)
    assert producer.end_place(commit=commit) == SOURCE
    assert producer.end_place(commit=not commit) == OWN


async def test_who_was_fenced_or_is_a_stranger_is_told_so(lab: Lab) -> None:
    lab.kept()
    with pytest.raises(Refused) as caught:
        await lab.transactions.identify("tx", ProducerIdentity(7, 2))
    assert caught.value.code == ErrorCode.PRODUCER_FENCED
    lab.coordinators.seen[OWN] = SeenTransaction(CLIENT, "Empty", 60_000, NOTHING)
    with pytest.raises(Refused) as caught:
        await lab.transactions.identify("tx", ProducerIdentity(8, 0))
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def test_a_source_that_cannot_tell_of_transactions_fences_after_a_restart(lab: Lab) -> None:
    lab.kept()
    lab.coordinators.seen[SOURCE] = Unseen("old")
    with pytest.raises(Refused) as caught:
        await lab.transactions.identify("tx", CLIENT)
    assert caught.value.code == ErrorCode.PRODUCER_FENCED


async def test_a_producer_from_before_the_mirror_gets_its_identity_with_its_first_transaction(lab: Lab) -> None:
    lab.coordinators.seen[OWN] = SeenTransaction(CLIENT, "Empty", 1234, NOTHING)
    producer = await lab.transactions.identify("tx", CLIENT)
    assert lab.coordinators.initialised == []
    assert await lab.transactions.identity_at(producer, SOURCE) == ELSEWHERE
    assert await lab.transactions.identity_at(producer, SOURCE) == ELSEWHERE
    assert lab.coordinators.initialised == [SOURCE]
    assert lab.identities.records["tx"] == ProducerRecord("tx", CLIENT, 1234, {SOURCE: ELSEWHERE})


async def test_behind_a_failback_an_instance_that_writes_to_the_source_directly_is_fenced_first(lab: Lab) -> None:
    """It has the client's own transactional id there, and the place behind the failback another one."""
    producer = TransactionalProducer("tx", CLIENT, ProducerRecord("tx", CLIENT, 60_000))
    behind = TransactionSide(SOURCE.cluster, 2)
    await lab.transactions.identity_at(producer, behind)
    assert lab.coordinators.initialised == [SOURCE, behind]
    assert set(producer.record.sides) == {SOURCE, behind}
    await lab.transactions.identity_at(producer, TransactionSide(SOURCE.cluster, 3))
    assert lab.coordinators.initialised[2:] == [TransactionSide(SOURCE.cluster, 3)]


async def test_a_write_pause_is_acknowledged_when_the_markers_are_written(lab: Lab) -> None:
    lab.kept()
    producer = await lab.transactions.identify("tx", CLIENT)
    producer.begin(SOURCE, {"a"}, 0.0)
    producer.confirm()
    lab.route(WritePhase.PAUSED)
    assert lab.placements.of(["b"])["b"].pause is PauseState.CLOSING
    lab.seen("Ongoing", "on-source-a")
    await lab.pauses.wait_for_end("a")
    assert lab.pauses.blocked_by("b") == "the end of a transaction of 'tx', open for 0.0 s"
    lab.seen("PrepareCommit", "on-source-a")  # its client has gone after it sent the end
    await lab.pauses.wait_for_end("a")
    assert lab.pauses.blocked_by("a") == "the markers of the last transaction of 'tx'"
    lab.seen("CompleteCommit")
    assert await lab.forwarder.drain("a") == 0
    assert lab.placements.of(["a", "b"])["a"].pause is PauseState.CLOSED
    assert lab.placements.of(["b"])["b"].pause is PauseState.CLOSING
    lab.route(WritePhase.FORWARD)
    assert lab.placements.of(["a"])["a"].pause is PauseState.NONE


async def test_markers_that_nobody_can_tell_of_are_an_unknown_outcome(lab: Lab) -> None:
    """The promote then waits its longer grace for them."""
    lab.kept()
    producer = await lab.transactions.identify("tx", CLIENT)
    producer.begin(SOURCE, {"a"}, 0.0)
    producer.end(commit=True)
    producer.ended()
    lab.route(WritePhase.PAUSED)
    lab.coordinators.seen[SOURCE] = Unseen("old")
    assert await lab.forwarder.drain("a") == 1


async def test_a_write_pause_finds_what_a_process_before_has_left_open(lab: Lab) -> None:
    lab.kept()
    lab.seen("Ongoing", "on-source-a")
    lab.coordinators.open = frozenset({"tx", "of-somebody-else"})
    lab.route(WritePhase.PAUSED)
    await lab.pauses.adopt(["a"])
    assert "'tx'" in lab.pauses.blocked_by("a")


async def test_an_older_instance_that_another_gateway_initialised_late_does_not_win(lab: Lab) -> None:
    lab.kept()
    producer = await lab.transactions.identify("tx", CLIENT)
    older = ProducerRecord("tx", ProducerIdentity(7, 2), 60_000, {SOURCE: ProducerIdentity(90, 6)})
    with pytest.raises(Refused) as caught:
        await lab.transactions.initialised(older, 1)
    assert caught.value.code == ErrorCode.PRODUCER_FENCED
    assert lab.transactions.known("tx", CLIENT) is producer
    assert await lab.transactions.has_newer(producer, SOURCE, ErrorCode.PRODUCER_FENCED)
    assert producer.record.at(SOURCE) == ProducerIdentity(90, 6)
    assert not await lab.transactions.has_newer(producer, SOURCE, ErrorCode.PRODUCER_FENCED)


class TestByAnotherConnection:
    """A producer that comes by another connection may have been served by another gateway meanwhile."""

    async def begun(self, lab: Lab) -> TransactionalProducer:
        """A transaction that this gateway has seen begin, on the source, by connection 1."""
        lab.kept()
        lab.coordinators.seen[OWN] = SeenTransaction(CLIENT, "Empty", 60_000, NOTHING)
        lab.seen("Empty")
        producer = await lab.transactions.identify("tx", CLIENT, 1)
        producer.begin(SOURCE, {"a", "group/g"}, 0.0)
        producer.confirm()
        return producer

    async def test_nothing_is_asked_while_it_is_the_same(self, lab: Lab) -> None:
        producer = await self.begun(lab)
        lab.coordinators.seen.clear()
        assert await lab.transactions.identify("tx", CLIENT, 1) is producer
        assert await lab.transactions.identify("tx", CLIENT) is producer
        assert producer.open is not None

    async def test_its_transaction_was_ended_there(self, lab: Lab) -> None:
        producer = await self.begun(lab)
        lab.seen("CompleteCommit")
        assert await lab.transactions.identify("tx", CLIENT, 2) is producer
        assert producer.open is None
        assert producer.end_place(commit=True) == SOURCE  # the repeat of an end
        assert not producer.blocks("a", set())

    async def test_it_was_ended_and_its_markers_are_being_written(self, lab: Lab) -> None:
        producer = await self.begun(lab)
        lab.seen("PrepareCommit", "on-source-a")
        await lab.transactions.identify("tx", CLIENT, 2)
        assert producer.open is None
        assert producer.blocks("a", set())

    async def test_the_next_one_was_begun_there_elsewhere(self, lab: Lab) -> None:
        producer = await self.begun(lab)
        lab.seen("CompleteCommit")
        lab.coordinators.seen[OWN] = SeenTransaction(CLIENT, "Ongoing", 60_000, frozenset({"plain"}))
        await lab.transactions.identify("tx", CLIENT, 2)
        assert producer.open is not None
        assert (producer.open.side, producer.open.topics) == (OWN, {"plain"})

    async def test_it_went_on_there(self, lab: Lab) -> None:
        producer = await self.begun(lab)
        lab.seen("Ongoing", "on-source-a", "on-source-b")
        await lab.transactions.identify("tx", CLIENT, 2)
        assert producer.open is not None
        assert producer.open.topics == {"a", "b", "group/g"}

    async def test_a_newer_instance_was_initialised_there(self, lab: Lab) -> None:
        await self.begun(lab)
        newer = ProducerIdentity(CLIENT.producer_id, CLIENT.epoch + 1)
        lab.identities.records["tx"] = ProducerRecord("tx", newer, 60_000, {SOURCE: ELSEWHERE})
        with pytest.raises(Refused) as caught:
            await lab.transactions.identify("tx", CLIENT, 2)
        assert caught.value.code == ErrorCode.PRODUCER_FENCED

    async def test_a_source_that_cannot_tell_leaves_what_is_known_here(self, lab: Lab) -> None:
        producer = await self.begun(lab)
        lab.coordinators.seen[SOURCE] = Unseen("source")
        await lab.transactions.identify("tx", CLIENT, 2)
        assert producer.open is not None

    async def test_nothing_is_asked_while_a_request_is_not_answered(self, lab: Lab) -> None:
        producer = await self.begun(lab)
        producer.in_transit = 1
        lab.seen("CompleteCommit")
        await lab.transactions.identify("tx", CLIENT, 2)
        assert producer.open is not None


class TestBehindALoadBalancer:
    """A producer that another gateway served comes back by a connection to this one that it has kept."""

    async def initialised(self, lab: Lab) -> TransactionalProducer:
        """By connection 1; both clusters have seen nothing of it yet."""
        await lab.transactions.initialised(ProducerRecord("tx", CLIENT, 60_000, {SOURCE: ELSEWHERE}), 1)
        lab.coordinators.seen[OWN] = SeenTransaction(CLIENT, "Empty", 60_000, NOTHING)
        lab.seen("Empty")
        return await lab.transactions.identify("tx", CLIENT, 1)

    async def test_the_end_of_what_another_gateway_has_begun_is_looked_for(self, lab: Lab) -> None:
        producer = await self.initialised(lab)
        lab.seen("Ongoing", "on-source-a")
        await lab.transactions.identify("tx", CLIENT, 1)
        assert producer.end_place(commit=True) == OWN  # a request that ends nothing asks nobody
        await lab.transactions.identify("tx", CLIENT, 1, to_end=True)
        assert producer.end_place(commit=True) == SOURCE

    @pytest.mark.parametrize("alone", [True, False])
    async def test_the_end_of_the_one_after_the_one_that_is_known_here(self, lab: Lab, alone: bool) -> None:
        lab.alone = alone
        producer = await self.initialised(lab)
        producer.begin(SOURCE, {"a"}, 0.0)
        producer.confirm()
        lab.seen("CompleteCommit")
        lab.coordinators.seen[OWN] = SeenTransaction(CLIENT, "Ongoing", 60_000, frozenset({"plain"}))
        await lab.transactions.identify("tx", CLIENT, 1, to_end=True)
        assert producer.end_place(commit=True) == (SOURCE if alone else OWN)  # alone: nobody else can have served it

    async def test_an_identity_that_only_its_data_came_with_is_looked_at_again(self, lab: Lab) -> None:
        lab.kept()
        producer = await lab.transactions.identify("tx", CLIENT)
        lab.seen("Ongoing", "on-source-a")
        await lab.transactions.identify("tx", CLIENT, 2)
        assert producer.open is not None

    @pytest.mark.parametrize("closed", [False, True])
    async def test_a_write_pause_holds_no_transaction_that_another_gateway_s_write_pause_waits_for(
        self, lab: Lab, closed: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def resumed(*_: object) -> None:
            lab.now += HOLD_S

        monkeypatch.setattr(TransactionAdding, "_resumed", resumed)
        await self.initialised(lab)
        lab.seen("Ongoing", "on-source-a")  # begun through another gateway
        lab.route(WritePhase.PAUSED)
        if closed:
            lab.pauses.close("a")
        adding = TransactionAdding(
            transactions=lab.transactions,
            placements=lab.placements,
            routing=lab.routing,
            stats=ProxyStats(lambda: lab.now),
            clock=lambda: lab.now,
        )
        taking = adding.add("tx", CLIENT, 1, lambda _: lab.placements.of(["a"]))
        if closed:  # this gateway has promised to write no more of the topic
            with pytest.raises(Refused) as caught:
                await taking.__aenter__()
            assert caught.value.code == ErrorCode.CONCURRENT_TRANSACTIONS
        else:
            async with taking as (producer, decision):
                assert decision.verdict is Admission.GO
                assert producer.blocks("a", {"a"})


async def test_idle_producers_are_forgotten_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are in the midst of something are kept, however old; a forgotten one is looked up again."""
    monkeypatch.setattr(transactions_module, "KEPT", 20)
    lab = Lab()
    transactions = lab.transactions
    for n in range(20):
        await transactions.initialised(ProducerRecord(f"tx-{n}", CLIENT, 60_000), 1)
    first, *_, busy = transactions.producers()
    busy.in_transit = 1
    first.open = Transaction(OWN, since=0.0)
    async with transactions.lock("tx-1"):
        for n in range(20, 60):
            await transactions.initialised(ProducerRecord(f"tx-{n}", CLIENT, 60_000), 1)
        known = [producer.transactional_id for producer in transactions.producers()]
        assert {"tx-0", "tx-1", "tx-19", "tx-59"} <= set(known)
    assert len(known) <= 20
    assert transactions.known("tx-2", CLIENT) is None
    assert (await transactions.identify("tx-2", CLIENT)).client == CLIENT
