"""Gates over the fleet. A gateway that follows asks the leader about groups nobody knows, and tells who waits here.

The leader classifies groups, promotes and demotes them (`groups/monitor.py`, `groups/promote.py`); what it decides
comes to the others by the groups' records. Only that a group has nothing to do with a mirror is told in an answer,
together with the offset of the state topic up to which that is so: whoever has read of a mirror behind it asks again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog

from gateway.fleet.peers.channel import Peers
from gateway.fleet.quorum import CLOSE_GATE, COMMITS_SETTLED, OPEN_GATE
from gateway.groups.gate.rules.commands import GateCommand
from gateway.groups.gate.rules.gates import COMMITS_S, JOINS, GateStatus, GroupGates, Identity, Waiter, unanswered
from gateway.kafka.connection.errors import NetError
from gateway.state.views import StateViews
from gateway.transport.background import kept_running, together
from protocol.apis import ApiKey

FIRST_REQUEST = "first_request"
WAITERS = "waiters"

_FIRST_REQUEST_S = 25.0
_AGAIN_S = 0.5
_GATHER_S = 0.05  # so that a hundred members that come at once are told of in one message
_REFRESH_S = 1.0
_TELL_S = 2.0
_TOLD_BYTES = 4 * 1024 * 1024  # half of what goes to a peer at all
_TOLD_OF_A_GROUP = 100
_log = structlog.get_logger("lockgate.fleet")


class FleetGates:
    """One per gateway; both sides are here, since a gateway that leads may follow a moment later.

    Args:
        leader: the name of the gateway that leads; '' when nobody is known to.
        is_leading: this one does.
        term: the newest known here; commands of an older one are refused.
    """

    def __init__(
        self,
        me: str,
        gates: GroupGates,
        state: StateViews,
        peers: Peers,
        *,
        leader: Callable[[], str],
        is_leading: Callable[[], bool],
        term: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._me = me
        self._gates = gates
        self._state = state
        self._peers = peers
        self._leader = leader
        self._is_leading = is_leading
        self._term = term
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._said = False  # the leader was told that somebody waits here
        peers.handlers[FIRST_REQUEST] = self._first_requested
        peers.handlers[WAITERS] = self._waiters
        peers.handlers[COMMITS_SETTLED] = self._settle
        peers.handlers[CLOSE_GATE] = self._close
        peers.handlers[OPEN_GATE] = self._open

    def start(self) -> None:
        """Begin to tell who waits here."""
        self._gates.on_waiters = self._news.set
        self._spawn(kept_running(self._tell_waiters, "fleet waiters"), "fleet waiters")

    def follow(self) -> None:
        """Another gateway leads, or nobody: it is asked from now on."""
        self._gates.on_unknown = self._tell_first_request
        self._gates.only_elsewhere(frozenset())
        for group in self._gates.unknown():
            self._tell_first_request(group)

    def assigned(self, members: Mapping[str, str]) -> None:
        """Of the present members; who is gone waits nowhere."""
        self._gates.only_elsewhere(frozenset(members))

    async def close(self) -> None:
        """Ask and tell no more."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- of one that follows -------------------------------------------------------------------------------------

    def _tell_first_request(self, group: str) -> None:
        name = f"ask about group {group}"
        self._spawn(kept_running(lambda: self._ask_about(group), name), name)

    async def _ask_about(self, group: str) -> None:
        """Until the group has a status: from the answer, from its record, or since this gateway leads by now."""
        while self._gates.status(group) is GateStatus.UNKNOWN and not self._is_leading():
            try:
                answer = await self._peers.ask(self._leader(), FIRST_REQUEST, {"group": group}, _FIRST_REQUEST_S)
            except NetError as exc:
                _log.info("a group is held until the leader knows it", group=group, reason=str(exc))
                await asyncio.sleep(_AGAIN_S)
                continue
            as_of = answer.get("as_of")
            if as_of is None or not self._gates.let_in(group, int(as_of)):
                await asyncio.sleep(_AGAIN_S)  # its record is on its way, or a mirror that the leader had not read of

    async def _tell_waiters(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(together(_REFRESH_S, asyncio.get_running_loop().time())):
                    await self._news.wait()
            if self._news.is_set():
                await asyncio.sleep(_GATHER_S)
            self._news.clear()
            waiting = self._gates.waiting_here()
            if self._is_leading() or not (waiting or self._said):
                continue
            chosen, now = _chosen(waiting), self._clock()
            told = [_told(each, now) for each in chosen]
            joins = [[each.instance_id, each.session_timeout_s] for each in chosen]
            body = {"waiters": told, "joins": joins, "apis": [each.api for each in chosen]}
            body["reads"] = [each.reads for each in chosen]
            with suppress(NetError):  # told again in a second
                await self._peers.ask(self._leader(), WAITERS, body, _TELL_S)
                self._said = bool(waiting)

    async def _close(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Close a gate, and wait until no commit that has passed it is under way."""
        self._require_newest(body)
        group = str(body["group"])
        self._gates.shut(group, _command(body))
        await self._answered(group)
        return {}

    async def _settle(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Read what the leader has stored of the group, by which nobody commits for it any more where it was, and wait
        until no commit that was sent before is under way."""
        self._require_newest(body)
        await self._state.read_up_to(int(body["offset"]))
        await self._answered(str(body["group"]))
        return {}

    async def _answered(self, group: str) -> None:
        answered = asyncio.Event()
        self._gates.when_answered(group, answered.set)
        try:
            async with asyncio.timeout(COMMITS_S):
                await answered.wait()
        except TimeoutError:
            raise NetError(unanswered(group)) from None

    async def _open(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The group's record is in force again: as of the command, not as far as it happens to be read here."""
        self._require_newest(body)
        command = _command(body)
        await self._state.read_up_to(command.offset)
        self._gates.open(str(body["group"]), command)
        return {}

    def _require_newest(self, body: Mapping[str, Any]) -> None:
        if int(body["term"]) < self._term():
            raise NetError(f"term {body['term']} is over here: {self._term()} is known")

    # -- of the leader -------------------------------------------------------------------------------------------

    async def _first_requested(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        self._require_leading()
        group, known = str(body["group"]), asyncio.Event()
        self._gates.when_known(group, known.set)
        await known.wait()
        if not self._gates.enabled:  # no topic is mirrored, up to here
            return {"open": True, "as_of": self._state.applied}
        # No mirror was stored since it was let in, or it would not be any more: so it is let in up to all that is read
        # here. Whoever began to read the state behind a compaction may take a mirror for younger than it is.
        as_of = self._gates.let_in_at(group)
        return {"open": as_of is not None, "as_of": None if as_of is None else max(as_of, self._state.applied)}

    async def _waiters(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        self._require_leading()
        now = self._clock()
        said = [(str(instance), float(seconds)) for instance, seconds in body.get("joins", ())]
        apis = [int(api) for api in body.get("apis", ())]
        said += [("", 0.0)] * (len(body["waiters"]) - len(said))  # an older gateway does not tell
        apis += [ApiKey.JOIN_GROUP] * (len(said) - len(apis))
        reads = [bool(each) for each in body.get("reads", ())]
        reads += [False] * (len(said) - len(reads))
        waiters = [
            Waiter(
                str(group),
                Identity(str(host), str(client), str(principal)),
                now - float(waited_s),
                True,
                *joins,
                api,
                has_read,
            )
            for (group, host, client, principal, waited_s), joins, api, has_read in zip(
                body["waiters"], said, apis, reads, strict=True
            )
        ]
        self._gates.waiting_elsewhere(str(body["from"]), waiters)
        return {}

    def _require_leading(self) -> None:
        if not self._is_leading():
            raise NetError(f"gateway '{self._me}' does not lead")

    def _spawn(self, work: Any, name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("background work failed", work=task.get_name(), error=str(error), exc_info=error)


def _told(waiter: Waiter, now: float) -> list[Any]:
    who = waiter.identity
    return [waiter.group, who.host, who.client_id, who.principal, now - waiter.since]


def _chosen(waiting: Sequence[Waiter]) -> list[Waiter]:
    """Of whom the leader is told: some of each group, consumers before others, as many as go into one message."""
    chosen: list[Waiter] = []
    of_group: dict[str, int] = {}
    room = _TOLD_BYTES
    for each in sorted(waiting, key=lambda waiter: (waiter.api not in JOINS, not waiter.is_consumer)):
        group, who = each.group, each.identity
        count = of_group[group] = of_group.get(group, 0) + 1
        if count > _TOLD_OF_A_GROUP:
            continue
        room -= 6 * (len(group) + len(who.host) + len(who.client_id) + len(who.principal)) + 96  # JSON's longest escape
        room -= 6 * len(each.instance_id)
        if room < 0:
            break
        chosen.append(each)
    return chosen


def _command(body: Mapping[str, Any]) -> GateCommand:
    try:
        return GateCommand(int(body["term"]), int(body["offset"]), int(body["number"]))
    except KeyError as exc:
        raise NetError(f"a command about a gate without its {exc.args[0]}: the leader has another version") from exc
