"""Groups that change sides with topics: held with their write pause, so that no transaction has two sides."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gateway.cutover.write_pause.rules.routing import TopicRoute, WritePhase, routing_of
from gateway.groups.gate.rules.gates import GroupGates, RecordedGate
from gateway.proxy.rules.transactional_ids import OWN, TARGET
from gateway.proxy.rules.transactional_producers import Admission, PauseState, TopicPlacement, TransactionalProducer
from gateway.proxy.transactions.coordinators import Refused
from gateway.proxy.transactions.group_sides import GroupSides
from protocol.errors import ErrorCode
from tests.support.control.pausing import in_phase
from tests.unit.proxy.transactions.test_transactions import CLIENT, SOURCE, Lab


class GroupLab(Lab):
    """`g` reads `a`, and changes sides with `a` and `b`; its gate is closed."""

    def __init__(self) -> None:
        self.gates = GroupGates()
        super().__init__()
        self.gates.enabled = True
        self.gates.recorded({"g": RecordedGate(False, 1, "source"), "h": RecordedGate(False, 1, "source")}, grown_at=0)
        self.sides = GroupSides(gates=self.gates, placements=self.placements, clock=lambda: self.now)

    def route(self, phase: WritePhase, *, home: bool = False) -> None:
        routes = {
            name: TopicRoute(
                link="source",
                mirror_topic=name,
                source_topic=f"on-source-{name}",
                pause=in_phase(phase),
                groups=("g",),
                counted=home,
            )
            for name in ("a", "b")
        }
        self.routing.publish(routing_of(routes))

    def placed(self, group: str = "g") -> TopicPlacement:
        return self.sides.placement(group)

    def wanted(self, _: TransactionalProducer) -> Mapping[str, TopicPlacement]:
        return {"group/g": self.placed()}


@pytest.fixture
def lab() -> GroupLab:
    made = GroupLab()
    made.kept()
    return made


async def test_a_group_is_paused_as_its_topics_are(lab: GroupLab) -> None:
    producer = await lab.transactions.identify("tx", CLIENT)
    assert lab.placed() == TopicPlacement(SOURCE.cluster)
    lab.route(WritePhase.PAUSED)
    assert lab.placed() == TopicPlacement(SOURCE.cluster, PauseState.CLOSING)
    assert lab.placed("h").pause is PauseState.NONE
    lab.pauses.close("b")
    assert lab.placed() == TopicPlacement(SOURCE.cluster, PauseState.CLOSED)
    assert producer.decide(lab.wanted(producer), 0).verdict is Admission.HOLD


async def test_a_gated_group_commits_on_the_source_of_its_own_link(lab: GroupLab) -> None:
    """Whichever source the producer's last transaction was on, or the topics are written on."""
    producer = await lab.transactions.identify("tx", CLIENT)
    producer.begin(SOURCE, {"a"}, 0.0)
    lab.gates.recorded({"g": RecordedGate(False, 1, "west")}, grown_at=0)
    assert lab.placed() == TopicPlacement("west-id")
    assert producer.decide(lab.wanted(producer), 0).verdict is Admission.REFUSE


async def test_at_home_it_is_the_target_s_until_then_although_its_gate_is_shut(lab: GroupLab) -> None:
    lab.gates.recorded({"g": RecordedGate(True, 1)}, grown_at=0)
    lab.route(WritePhase.PAUSED, home=True)
    lab.gates.hold("g")
    assert lab.placed() == TopicPlacement(TARGET, PauseState.CLOSING)


async def test_while_its_gate_alone_is_shut_nobody_is_told_a_side(lab: GroupLab) -> None:
    """A promote home that is given up ends the pause at a gateway before it opens the gate there; a demote, too, may be
    given up. A refusal for having two sides would be the client's end."""
    lab.gates.recorded({"g": RecordedGate(True, 1)}, grown_at=0)
    lab.route(WritePhase.SWITCHED, home=True)
    lab.gates.hold("g")
    with pytest.raises(Refused) as refused:
        lab.placed()
    assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    lab.gates.let_go("g")
    assert lab.placed() == TopicPlacement(TARGET)


async def test_a_transaction_with_nothing_but_the_group_s_offsets_is_waited_for(lab: GroupLab) -> None:
    producer = await lab.transactions.identify("tx", CLIENT)
    producer.begin(SOURCE, {"group/g"}, 0.0)
    producer.confirm()
    lab.route(WritePhase.PAUSED)
    assert lab.pauses.blocking("a") == lab.pauses.blocking("b") == [producer]
    assert producer.decide(lab.placements.of(["a"]), 0).verdict is Admission.GO  # it goes on to its end
    producer.end(commit=True)
    producer.ended()
    assert lab.pauses.blocked_by("a") == "the markers of the last transaction of 'tx'"
    lab.seen("CompleteCommit")
    assert await lab.forwarder.drain("a") == 0
    assert not lab.pauses.blocking("b")


async def test_one_of_another_group_is_not(lab: GroupLab) -> None:
    producer = await lab.transactions.identify("tx", CLIENT)
    producer.begin(OWN, {"group/x", "elsewhere"}, 0.0)
    producer.confirm()
    lab.route(WritePhase.PAUSED)
    assert not lab.pauses.blocking("a")


async def test_one_that_is_known_by_its_coordinator_only_may_have_any_group(lab: GroupLab) -> None:
    """Coordinators name partitions of __consumer_offsets, not groups."""
    lab.seen("Ongoing", "__consumer_offsets-7")
    lab.coordinators.open = frozenset({"tx"})
    lab.route(WritePhase.PAUSED)
    await lab.pauses.adopt(["a"])
    assert "'tx'" in lab.pauses.blocked_by("a")


async def test_one_that_a_gateway_which_is_gone_has_begun_is_found_although_its_producer_is_known(
    lab: GroupLab,
) -> None:
    await lab.transactions.identify("tx", CLIENT)
    lab.seen("Ongoing", "__consumer_offsets-7")
    lab.coordinators.open = frozenset({"tx"})
    lab.route(WritePhase.PAUSED)
    assert not lab.pauses.blocking("a")
    await lab.pauses.adopt(["a"])
    assert "'tx'" in lab.pauses.blocked_by("a")
