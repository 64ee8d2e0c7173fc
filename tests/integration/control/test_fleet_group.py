"""Three gateways in one group of a real coordinator: admission, a removal long before the session ends, a return."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

import pytest

from gateway.devcluster import DevCluster
from gateway.fleet.group import SESSION_MS, FleetGroup
from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.group import FleetGroupState, MembershipPhase
from gateway.fleet.rules.leases import WriteLease
from gateway.fleet.rules.membership import FleetMember, FleetRole, assign
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.config import ClusterConfig
from gateway.mirror.rules.period import MirrorPartition
from gateway.transport.host import boot_clock
from tests.support.brokers.logs import create_topic
from tests.support.waiting import wait_until_async

PARTITIONS = [MirrorPartition("l", "t", index) for index in range(6)]
LEASE_S = 2.0


class Member:
    """A gateway that does nothing but be there."""

    def __init__(self, name: str, role: FleetRole, bootstrap: str, group: str) -> None:
        self.name, self.role = name, role
        self.cluster = Cluster(ClusterConfig.from_client_properties({"bootstrap.servers": bootstrap}))
        self.state = FleetGroupState(WriteLease(LEASE_S))
        self.group = FleetGroup(
            self.cluster, group, self.state, self.describe, self.assign, self.assigned, place=f"place-of-{group}"
        )
        self.task: asyncio.Task[None] | None = None
        self.told: list[FleetAssignment | None] = []

    async def start(self) -> None:
        await self.cluster.start()
        self.task = asyncio.create_task(self.group.run(), name=f"member {self.name}")

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with suppress(asyncio.CancelledError):
                await self.task
            self.task = None

    def describe(self) -> FleetMember:
        now = self.state.assignment
        owned = frozenset[MirrorPartition]() if now is None else now.owners.get(self.name, frozenset())
        return FleetMember(name=self.name, incarnation="1", role=self.role, peer="-", lease_s=LEASE_S, owned=owned)

    async def assign(self, members: Mapping[str, FleetMember]) -> FleetAssignment:
        nodes = {each.name: each.owned for each in members.values() if each.role is FleetRole.NODE}
        return FleetAssignment(
            leader=self.name,
            peers={each.name: each.peer for each in members.values()},
            owners=assign(nodes, PARTITIONS, moves=len(PARTITIONS)),
        )

    def assigned(self, assignment: FleetAssignment | None) -> None:
        self.told.append(assignment)

    @property
    def peers(self) -> frozenset[str]:
        """Who the present assignment names; empty without one."""
        if self.state.phase is not MembershipPhase.HEARTBEAT or self.state.assignment is None:
            return frozenset()
        return frozenset(self.state.assignment.peers)

    @property
    def leased(self) -> bool:
        return self.state.lease.valid(boot_clock())


@pytest.fixture
async def fleet(target: DevCluster) -> AsyncIterator[dict[str, Member]]:
    group = f"fleet-{uuid.uuid4().hex[:12]}"
    roles = {"side": FleetRole.SIDECAR, "one": FleetRole.NODE, "two": FleetRole.NODE}
    members = {name: Member(name, role, target.bootstrap, group) for name, role in roles.items()}
    create_topic(target.bootstrap, f"place-of-{group}", partitions=1)
    for member in members.values():
        await member.start()
    yield members
    for member in members.values():
        await member.stop()
        await member.cluster.close()


async def together(members: list[Member]) -> None:
    """Wait until they, and nobody else, are in the same generation."""
    names = frozenset(member.name for member in members)
    await wait_until_async(
        lambda: all(m.peers == names for m in members) and len({m.state.generation for m in members}) == 1,
        60.0,
        what=f"a group of {sorted(names)}",
    )


async def test_a_fleet_comes_together_loses_a_gateway_and_gets_it_back(fleet: dict[str, Member]) -> None:
    everybody = list(fleet.values())
    await together(everybody)
    await wait_until_async(lambda: all(member.leased for member in everybody), 10.0, what="what is written for each")
    assignment = fleet["one"].state.assignment
    assert assignment is not None
    assert assignment.leader in ("one", "two"), "a sidecar does not lead while there is a node"
    assert {name: len(owned) for name, owned in assignment.owners.items()} == {"one": 3, "two": 3}

    leader = fleet[assignment.leader]
    lost = fleet["two" if leader.name == "one" else "one"]
    lost_id = lost.state.member_id
    await lost.stop()  # without a word, as if it were killed
    began = boot_clock()
    await leader.group.remove(lost_id)
    rest = [member for member in everybody if member is not lost]
    await together(rest)
    print(f"the group without it after {(boot_clock() - began) * 1000:.0f} ms; its session: {SESSION_MS} ms")  # noqa: T201
    held = leader.state.assignment
    assert held is not None
    assert set(held.owners) == {leader.name}
    assert held.owners[leader.name] == frozenset(PARTITIONS)

    await wait_until_async(lambda: not lost.leased, 10.0, what="the end of its lease")
    lost.task = asyncio.create_task(lost.group.run(), name="it goes on")
    await together(everybody)
    assert None in lost.told, "it was told that it is not a member any more, before it was admitted anew"
    await wait_until_async(lambda: lost.leased, 10.0, what="a renewal that is written for it")
    back = leader.state.assignment
    assert back is not None
    assert {name: len(owned) for name, owned in back.owners.items()} == {"one": 3, "two": 3}


async def test_one_that_leaves_in_order_is_missed_at_once(fleet: dict[str, Member]) -> None:
    await together(list(fleet.values()))
    await fleet["side"].stop()
    await fleet["side"].group.leave()
    assert not fleet["side"].leased
    await together([fleet["one"], fleet["two"]])


async def test_one_that_leaves_while_the_group_waits_for_another_is_gone_at_once(fleet: dict[str, Member]) -> None:
    """Its JoinGroup waits for one that was killed; the good-bye must not wait behind it, or nobody would send it."""
    await together(list(fleet.values()))
    assignment = fleet["one"].state.assignment
    assert assignment is not None
    # The leader joins again: of another member whose metadata is as before, a coordinator takes no notice.
    leaving, killed = fleet[assignment.leader], fleet["two" if assignment.leader == "one" else "one"]
    await killed.stop()  # without a word
    leaving.group.rebalance()
    await wait_until_async(lambda: leaving.state.phase is MembershipPhase.JOIN, 10.0, what="a JoinGroup")
    await wait_until_async(lambda: fleet["side"].state.phase is MembershipPhase.JOIN, 10.0, what="the other's, too")
    async with asyncio.timeout(2.0):
        await leaving.stop()
        await leaving.group.leave()
    await together([fleet["side"]])
