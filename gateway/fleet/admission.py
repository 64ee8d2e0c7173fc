"""Which of the group's assignments counts here, and whether this gateway has a place: docs/background/agreement.md."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from gateway.fleet.parts import FleetHooks, GatewayIdentity, RightToWrite
from gateway.fleet.peers.channel import Peers
from gateway.fleet.rules.assignment import FleetAssignment, MalformedAssignment, decode_assignment, digest_of
from gateway.fleet.rules.leases import WriteLease
from gateway.kafka.connection.errors import NetError
from gateway.state.errors import StateWentBack
from gateway.state.store import StateStore
from gateway.transport.host import MACHINE, Host

ASSIGNMENT: Final = "assignment"

_ASK_S: Final = 3.0
_log = structlog.get_logger("lockgate.fleet")


class GroupAdmission:
    """An assignment counts once the state is read up to it; with it comes the right to write.

    Attributes:
        assignment: the last that the group told, whether it counts yet or not; None when it knows this gateway no more.
        right: to write what a write pause concerns.
        whole: the last that has counted.
        own: the digest and the bytes of what this gateway, leading, has told the outline of; ('', b'') for nothing.
    """

    def __init__(
        self,
        me: GatewayIdentity,
        store: StateStore,
        peers: Peers,
        hooks: FleetHooks,
        lease: WriteLease,
        host: Host = MACHINE,
    ) -> None:
        self._me = me
        self._store = store
        self._peers = peers
        self._hooks = hooks
        self.right = RightToWrite(lease, host.boot)
        self.assignment: FleetAssignment | None = None
        self.whole: FleetAssignment | None = None
        self.own: Callable[[], tuple[str, bytes]] = lambda: ("", b"")
        self._counted: FleetAssignment | None = None
        peers.handlers[ASSIGNMENT] = self._tell
        self._admitted = asyncio.Event()

    async def wait(self) -> None:
        """Until this gateway is admitted for the first time. No limit of its own."""
        await self._admitted.wait()

    def told(self, assignment: FleetAssignment | None) -> None:
        """The group has agreed, or has forgotten this gateway."""
        self.assignment = assignment
        if assignment is None:
            self.right.forgotten()
            self._hooks.forgotten()

    def alone(self, assignment: FleetAssignment) -> None:
        """Nobody else can be there: this gateway's own assignment counts at once, without the group's word."""
        self._admit()
        self._hooks.admitted(assignment)

    async def count(self) -> bool:
        """Let the last assignment count, if it does not yet; one that is outdated by then never does.

        Returns:
            False when its leader has not told it in whole: to be tried again.
        """
        assignment = self.assignment
        if assignment is None or assignment is self._counted:
            return True
        whole: FleetAssignment | None = assignment
        if assignment.digest:
            whole = await self._whole_of(assignment)
            if self.assignment is not assignment:
                return True
            if whole is None:
                return False
            self.assignment = whole
        if whole is not None and await self._count(whole):
            self._counted = self.whole = whole
        return True

    async def _whole_of(self, outline: FleetAssignment) -> FleetAssignment | None:
        """What the leader says, of which the group has told the outline. None when it is not to be had now."""
        digest, data = self.own()
        if digest != outline.digest:
            await self._store.read_up_to(outline.state_offset)  # there is the secret by which gateways know each other
            known = {} if self.whole is None else self.whole.peers
            self._peers.expect({**known, **outline.peers})
            try:
                answer = await self._peers.ask(outline.leader, ASSIGNMENT, {"digest": outline.digest}, _ASK_S)
                data = base64.b64decode(str(answer["assignment"]), validate=True)
            except (NetError, KeyError, ValueError) as exc:
                _log.info("the leader has not told its assignment yet", leader=outline.leader, reason=str(exc))
                return None
        try:
            if digest_of(data) == outline.digest:
                return decode_assignment(data)
        except MalformedAssignment as exc:
            _log.error("the fleet's leader told an assignment that cannot be read", reason=str(exc))
        return None

    async def _tell(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """A member asks for what it knows the outline of."""
        digest, data = self.own()
        if not digest or digest != body.get("digest"):
            raise NetError("this gateway has told another assignment since, or none")
        return {"assignment": base64.b64encode(data).decode()}

    async def _count(self, assignment: FleetAssignment) -> bool:
        """False when it is outdated by the time the state is read."""
        address = assignment.peers.get(self._me.name)
        if address is None:
            _log.warning("the fleet has no node: nothing is written to sources", leader=assignment.leader)
            self.right.refused()
            return True
        if address != self._me.peer:
            self.right.refused()
            self._hooks.failed(
                f"another gateway has the name '{self._me.name}' ({address}): give each its own, in fleet.name"
            )
            return True
        self._peers.expect(assignment.peers)
        try:
            await self._store.read_up_to(assignment.state_offset)
        except StateWentBack:
            return False  # it is of a log that is no more
        if self.assignment is not assignment:
            return False
        if self.right.lapsed:
            self._hooks.lapsed()
        self._hooks.admitted(assignment)
        self._admit()
        return True

    def _admit(self) -> None:
        self.right.admitted()
        self._admitted.set()
