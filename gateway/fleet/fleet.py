"""One gateway's place in the fleet: in the group, under a lease, leading or following (docs/background/agreement.md).

The group says who leads, and the state topic who may write: a term of leadership runs while both name this gateway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from gateway.fleet.admission import GroupAdmission
from gateway.fleet.group import FleetGroup
from gateway.fleet.leadership import Leadership, PartitionAssigner
from gateway.fleet.parts import FleetHooks, GatewayIdentity, Term
from gateway.fleet.peers.channel import Peers
from gateway.fleet.rules.assignment import FleetAssignment
from gateway.fleet.rules.group import FleetGroupState, GroupRefused
from gateway.fleet.rules.leases import WriteLease
from gateway.fleet.rules.membership import FleetMember, FleetRole
from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.state.gateway_records import READS_TABLES
from gateway.state.store import ProducerFenced, StateStore, StoreError
from gateway.transport.host import MACHINE, Host

GROUP = "__lockgate.fleet"
ADMIT_S = 15.0
_AGAIN_S = 0.3
_log = structlog.get_logger("lockgate.fleet")


class Fleet:
    """Args.

    cluster: the target, a client of its own: joining a group holds up what comes behind on its connection.
    """

    def __init__(
        self,
        me: GatewayIdentity,
        store: StateStore,
        cluster: Cluster,
        peers: Peers,
        hooks: FleetHooks,
        host: Host = MACHINE,
        group: str = GROUP,
    ) -> None:
        self.me = me
        self._boot = host.boot
        self._store = store
        self._hooks = hooks
        self.lease = WriteLease(me.lease_s)
        self._state = FleetGroupState(self.lease)
        self._group = FleetGroup(
            cluster,
            group,
            self._state,
            self._describe,
            self._assign,
            self._assigned,
            host.boot,
            members=lambda: len(store.gateways),
        )
        self._admission = GroupAdmission(me, store, peers, hooks, self.lease, host)
        self._admission.own = lambda: self._group.whole
        self.right = self._admission.right
        self._leadership = Leadership(me, store, peers, hooks, host)
        self._alone = False  # leads without having been named by the group
        self._changing = asyncio.Lock()
        self._news = asyncio.Event()
        self._assigner = PartitionAssigner(store, self._group.rebalance)
        self._tasks: list[asyncio.Task[None]] = []
        store.on_fenced = self._news.set
        store.on_went_back = self._state_went_back
        store.on_recovered = self._group.rebalance

    def _state_went_back(self) -> None:
        """What others know of the state, this gateway may not, and the other way round: it writes nothing until the
        group has agreed anew, which it does once all that was lost is in the topic again."""
        self.right.refused()
        self._news.set()

    # -- for the rest of the gateway -----------------------------------------------------------------------------

    @property
    def term(self) -> Term | None:
        """The term of leadership that has begun here, if any."""
        return self._leadership.term

    @property
    def assignment(self) -> FleetAssignment | None:
        """What the group said last; None when it does not know this gateway."""
        return self._admission.assignment

    @property
    def leader(self) -> str:
        """Who leads, as far as is known here; ''."""
        if self.term is not None:
            return self.me.name
        return self.assignment.leader if self.assignment is not None else ""

    @property
    def trouble(self) -> str:
        """Why the group's coordinator does not agree with this gateway now; '' while it does."""
        return self._group.trouble

    def lease_valid(self) -> bool:
        """May what a write pause concerns be written now, and its answer be passed on? See `fleet/rules/leases.py`."""
        return self.right.valid()

    async def start(self) -> None:
        """Lead at once when nobody else can be there; join the group either way, and wait until it admits this gateway.

        When it does not in ADMIT_S, this goes on in the background: what needs no lease is served meanwhile.
        """
        async with self._changing:
            await self._lead_alone()
            await self._fit()
        self._tasks = [
            asyncio.create_task(self._run_group(), name="fleet group"),
            asyncio.create_task(self._lead_or_follow(), name="fleet term"),
        ]
        try:
            async with asyncio.timeout(ADMIT_S):
                await self._admission.wait()
        except TimeoutError:
            _log.warning("the fleet has not admitted this gateway yet: it serves what needs no lease")

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="fleet drop")
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    async def drop(self, name: str) -> None:
        """Have the group drop a member that fell silent, long before its session ends."""
        assignment = self.assignment
        member = None if assignment is None else assignment.members.get(name)
        if member is None or name == self.me.name:
            return
        _log.info("the group drops a silent gateway", gateway=name)
        await self._drop(member)

    async def _drop(self, member_id: str) -> None:
        try:
            await self._group.remove(member_id)
        except ClusterUnavailable as exc:
            _log.warning("a gateway was not dropped from the group", member=member_id, reason=str(exc))

    async def close(self) -> None:
        """Leave the group; the caller writes nothing more. Before the store is closed."""
        self._assigner.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with self._changing:
            await self._leadership.end()
        try:
            async with asyncio.timeout(2.0):
                await self._group.leave()
        except (ClusterUnavailable, TimeoutError) as exc:
            _log.warning("the fleet's group was not told of the end", reason=str(exc) or "no answer in time")

    # -- alone ---------------------------------------------------------------------------------------------------

    async def _lead_alone(self) -> None:
        """Lead without the group's word when the registry has no other gateway, but for processes of this one's name.

        Whoever holds a lease is registered before. So nobody else writes, or leads: of two that begin at the same
        moment the second fences the first, and finds it in the registry, or the first does not get into it.
        """
        if self.me.role is not FleetRole.NODE or self._others():
            return
        try:
            sent_at = self._boot()
            await self._leadership.take_over()
            if self._others():
                await self._store.resign()
                return
            await self._leadership.admit({"": self._describe()})
        except ProducerFenced as exc:
            _log.info("another gateway starts too: it is left to the group who leads", reason=str(exc))
            await self._store.resign()
            return
        self.lease.renewed(sent_at)
        self._alone = True
        self._admission.alone(self._assignment_of({"": self._describe()}))
        self._news.set()

    def _others(self) -> frozenset[str]:
        return frozenset(one.succeeded or one.name for one in self._store.gateways.values()) - {self.me.name}

    # -- the group -----------------------------------------------------------------------------------------------

    def _describe(self) -> FleetMember:
        me = self.me
        return FleetMember(
            name=me.name,
            incarnation=me.incarnation,
            role=me.role,
            peer=me.peer,
            lease_s=me.lease_s,
            place=me.place(),
            keys=me.keys,
            bootstrap=me.bootstrap,
            owned=self._hooks.owned(),
            reads=READS_TABLES,
        )

    async def _run_group(self) -> None:
        try:
            await self._group.run()
        except GroupRefused as exc:
            self._hooks.failed(f"the target refuses the fleet's group {GROUP}: {exc}")
        except Exception as exc:  # noqa: BLE001 - without the group this gateway is nobody's
            _log.exception("the fleet's group failed")
            self._hooks.failed(f"the fleet's group failed: {type(exc).__name__}: {exc}")

    async def _assign(self, members: Mapping[str, FleetMember]) -> FleetAssignment:
        """This member was named to make the assignment: lead, register, say who does what."""
        async with self._changing:
            if self.me.role is FleetRole.SIDECAR:  # no node is there: nobody is admitted
                return FleetAssignment(leader="")
            try:
                if not self._store.leading:
                    await self._leadership.end()
                    await self._leadership.take_over()
                kept = await self._leadership.admit(members)
            except StoreError as exc:
                raise ClusterUnavailable(f"the fleet cannot be led from here now: {exc}") from exc
            for member_id in members.keys() - kept.keys():  # of processes that are dead, or are about to notice
                self._soon(self._drop(member_id))
            return self._assignment_of(kept)

    def _assignment_of(self, members: Mapping[str, FleetMember]) -> FleetAssignment:
        term = self.term
        return FleetAssignment(
            leader=self.me.name,
            peers={each.name: each.peer for each in members.values()},
            owners=self._assigner.owners(self._owning(members.values()), self._admission.whole),
            paused=self._hooks.paused(),
            state_offset=self._store.applied,
            term=self._store.term,
            closed=frozenset() if term is None else frozenset(term.quorum.closed),
            members={each.name: member_id for member_id, each in members.items() if member_id},
        )

    def _owning(self, members: Iterable[FleetMember]) -> list[FleetMember]:
        """With what each owns: who could not say it has what it was given last, as far as that is known here."""
        last = self._admission.whole
        given = {} if last is None else last.owners
        return [one if one.tells else replace(one, owned=given.get(one.name, one.owned)) for one in members]

    def records_changed(self) -> None:
        """The state was read on."""
        if self.term is not None:
            self._assigner.records_changed(self.assignment)

    def _assigned(self, assignment: FleetAssignment | None) -> None:
        self._alone = False
        if assignment is not None and assignment.leader == self.me.name and assignment.term == self._store.term:
            self._leadership.begun()  # what this gateway has admitted last is what was told now
        self._admission.told(assignment)
        self._news.set()

    # -- terms ---------------------------------------------------------------------------------------------------

    async def _lead_or_follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                if not await self._admission.count():
                    asyncio.get_running_loop().call_later(_AGAIN_S, self._news.set)
                async with self._changing:
                    await self._fit()
            except Exception as exc:  # noqa: BLE001 - half a control plane is worse than none
                _log.exception("a term of leadership failed")
                self._hooks.failed(f"leadership failed: {type(exc).__name__}: {exc}")
                return

    async def _fit(self) -> None:
        """Begin or end a term, as the group and the state topic say."""
        named = self._alone or self.assignment is None or self.assignment.leader == self.me.name
        if self._store.leading and named:
            await self._leadership.begin()
            return
        await self._leadership.end()
        if self.assignment is not None and self.assignment.leader == self.me.name:
            self._assigner.soon()  # somebody took over the state topic without the group: let it name the leader anew
