"""A transaction takes a topic in: what was decided holds until the request is sent, or nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.groups.gate.rules.gates import GroupGates, RecordedGate
from gateway.proxy.rules.transactional_ids import ProducerRecord
from gateway.proxy.rules.transactional_producers import Admission, TopicPlacement, TransactionalProducer
from gateway.proxy.session.stats import ProxyStats
from gateway.proxy.transactions.adding import TransactionAdding
from gateway.proxy.transactions.coordinators import Refused
from gateway.proxy.transactions.group_sides import GroupSides
from protocol.errors import ErrorCode
from tests.unit.proxy.transactions.test_transactions import CLIENT, SOURCE, Lab


@pytest.fixture
async def lab() -> Lab:
    made = Lab()
    await made.transactions.initialised(ProducerRecord("tx", CLIENT, 60_000), 1)
    return made


@pytest.fixture
def adding(lab: Lab) -> TransactionAdding:
    return TransactionAdding(
        transactions=lab.transactions,
        placements=lab.placements,
        routing=lab.routing,
        stats=ProxyStats(lambda: lab.now),
        clock=lambda: lab.now,
    )


class TestAPauseThatBeginsAfterTheDecision:
    """The client's rights are asked for, and the source's coordinator for an identity: that takes its time."""

    async def test_nothing_is_sent_once_it_is_acknowledged(self, lab: Lab, adding: TransactionAdding) -> None:
        await self.refuses(lab, adding, acknowledged=True)

    async def test_nor_before_since_nothing_is_begun_under_a_pause(self, lab: Lab, adding: TransactionAdding) -> None:
        await self.refuses(lab, adding, acknowledged=False)

    async def test_nor_once_the_topic_is_written_elsewhere(self, lab: Lab, adding: TransactionAdding) -> None:
        await self.refuses(lab, adding, acknowledged=True, then=WritePhase.SWITCHED)

    async def test_nor_into_a_transaction_that_is_open(self, lab: Lab, adding: TransactionAdding) -> None:
        """It has another topic so far: the pause of this one did not wait for it."""
        async with adding.add("tx", CLIENT, 1, self.wants(lab, "b")) as (producer, _):
            with adding.begun(producer, SOURCE, self.wants(lab, "b")) as opened:
                assert opened
            adding.taken(producer, opened, [0])
        producer = await self.refuses(lab, adding, acknowledged=True, open_already=True)
        assert producer.open is not None
        assert producer.open.topics == {"b"}

    async def refuses(
        self,
        lab: Lab,
        adding: TransactionAdding,
        *,
        acknowledged: bool,
        then: WritePhase = WritePhase.PAUSED,
        open_already: bool = False,
    ) -> TransactionalProducer:
        async with adding.add("tx", CLIENT, 1, self.wants(lab, "a")) as (producer, decision):
            assert (decision.verdict, decision.side) == (Admission.GO, SOURCE)
            await lab.transactions.identity_at(producer, SOURCE)
            lab.route(WritePhase.PAUSED)
            assert lab.pauses.blocking("a") == ([producer] if open_already else [])
            if acknowledged:
                lab.pauses.close("a")
            if then is not WritePhase.PAUSED:
                lab.route(then)
            with pytest.raises(Refused) as caught, adding.begun(producer, SOURCE, self.wants(lab, "a")):
                raise AssertionError("it is sent")
        assert caught.value.code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert (producer.open is not None, producer.in_transit) == (open_already, 0)
        return producer

    def wants(self, lab: Lab, topic: str) -> Wants:
        return Wants(lab, topic)


class Wants:
    """One topic, where it is now."""

    def __init__(self, lab: Lab, topic: str) -> None:
        self.lab, self.topic = lab, topic

    def __call__(self, _: TransactionalProducer) -> Mapping[str, TopicPlacement]:
        return self.lab.placements.of([self.topic])


async def test_a_group_that_is_promoted_after_the_decision_is_not_taken_in_on_the_source(
    lab: Lab, adding: TransactionAdding
) -> None:
    """Its offsets were carried over: what would be committed on the source since is known to nobody."""
    gates = GroupGates()
    gates.enabled = True
    gates.recorded({"g": RecordedGate(False, 1, "source")}, grown_at=0)
    sides = GroupSides(gates=gates, placements=lab.placements, clock=lambda: lab.now)

    def wanted(_: TransactionalProducer) -> Mapping[str, TopicPlacement]:
        return {"group/g": sides.placement("g")}

    async with adding.add("tx", CLIENT, 1, wanted) as (producer, decision):
        assert (decision.verdict, decision.side) == (Admission.GO, SOURCE)
        gates.recorded({"g": RecordedGate(True, 2)}, grown_at=0)
        with pytest.raises(Refused) as caught, adding.begun(producer, SOURCE, wanted):
            raise AssertionError("it is sent")
    assert caught.value.code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert producer.open is None
