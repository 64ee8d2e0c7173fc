"""Which consumer groups may read on the target, who waits at the gate, and which clients belong to whom.

The proxy's handlers ask and wait here; the control plane decides and opens. No I/O, one event loop: a waiter
is a callback, deadlines are the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import count


class GateStatus(StrEnum):
    """OPEN: the group may read. CLOSED: gated. UNKNOWN: never asked about; held until the source has answered."""

    OPEN = "open"
    CLOSED = "closed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Identity:
    """A client as the gateway can tell it apart: host without port, client.id, SASL principal ('' if none)."""

    host: str
    client_id: str
    principal: str = ""


@dataclass(frozen=True, slots=True)
class Waiter:
    """One member waiting at a gate, for `describe`. `since` is the monotonic clock in seconds."""

    group: str
    identity: Identity
    since: float


class GroupGates:
    """Status per group, waiters per group, and the groups each client identity was seen with.

    `on_unknown(group)` is called once per group that knocks without a status; whoever handles it must end in
    `set`. While `enabled` is False (no link has a gated topic) every group is OPEN. `on_waiters` is called when
    somebody begins or ends to wait here.
    """

    __slots__ = (
        "_answered",
        "_commits",
        "_elsewhere",
        "_groups_of",
        "_keys",
        "_known",
        "_status",
        "_waiters",
        "enabled",
        "on_unknown",
        "on_waiters",
    )

    def __init__(self) -> None:
        self.enabled = False
        self.on_unknown: Callable[[str], None] = lambda group: None
        self._status: dict[str, GateStatus] = {}
        self._waiters: dict[str, dict[int, tuple[Waiter, Callable[[], None]]]] = {}
        self._groups_of: dict[Identity, set[str]] = {}
        self._keys = count()
        self._commits: dict[str, int] = {}
        self._answered: dict[str, list[Callable[[], None]]] = {}
        self._known: dict[str, list[Callable[[], None]]] = {}
        self._elsewhere: dict[str, list[Waiter]] = {}
        self.on_waiters: Callable[[], None] = lambda: None

    def status(self, group: str) -> GateStatus:
        """The group's status; an unknown one is reported to `on_unknown` the first time."""
        if not self.enabled:
            return GateStatus.OPEN
        found = self._status.get(group)
        if found is None:
            self._status[group] = found = GateStatus.UNKNOWN
            self.on_unknown(group)
            found = self._status[group]  # the answer may already be known
        return found

    def set(self, group: str, status: GateStatus) -> None:
        """Set a status; OPEN releases every waiter of the group at once."""
        self._status[group] = status
        for callback in self._known.pop(group, ()):
            callback()
        if status is GateStatus.OPEN:
            for _, release in list(self._waiters.get(group, {}).values()):
                release()

    def when_known(self, group: str, callback: Callable[[], None]) -> None:
        """Call `callback` once the group has a status that somebody has set; now, if it has. One that knocks counts."""
        if self.status(group) is GateStatus.UNKNOWN:
            self._known.setdefault(group, []).append(callback)
        else:
            callback()

    def unknown(self) -> list[str]:
        """Every group that has knocked and has no answer yet."""
        return [group for group, status in self._status.items() if status is GateStatus.UNKNOWN]

    def opened(self) -> list[str]:
        """Every group whose gate is open now."""
        return [group for group, status in self._status.items() if status is GateStatus.OPEN]

    def forget(self, groups: Iterable[str] | None = None) -> None:
        """Forget statuses (all by default), so that they are asked for again at the next knock."""
        for group in list(self._status) if groups is None else groups:
            self._status.pop(group, None)

    def wait(self, waiter: Waiter, release: Callable[[], None]) -> int:
        """Register a waiter; `release` is called when the gate opens. Returns the key for `leave`."""
        key = next(self._keys)
        self._waiters.setdefault(waiter.group, {})[key] = (waiter, release)
        self.on_waiters()
        return key

    def leave(self, group: str, key: int) -> None:
        """Remove a waiter (released, timed out or disconnected). Unknown keys are ignored."""
        entries = self._waiters.get(group)
        if entries is not None:
            entries.pop(key, None)
            if not entries:
                del self._waiters[group]
            self.on_waiters()

    def waiters(self, group: str) -> list[Waiter]:
        """Who waits at the group's gate now, at this gateway and others that have told."""
        here = [waiter for waiter, _ in self._waiters.get(group, {}).values()]
        return here + [waiter for found in self._elsewhere.values() for waiter in found if waiter.group == group]

    def waiting_here(self) -> list[Waiter]:
        """Who waits at this gateway's gates."""
        return [waiter for entries in self._waiters.values() for waiter, _ in entries.values()]

    def waiting_elsewhere(self, gateway: str, waiters: list[Waiter]) -> None:
        """Who waits at another gateway's gates now; replaces what it said before."""
        if waiters:
            self._elsewhere[gateway] = waiters
        else:
            self._elsewhere.pop(gateway, None)

    def only_elsewhere(self, gateways: frozenset[str]) -> None:
        """Only these gateways are there: at the others nobody waits."""
        self._elsewhere = {name: found for name, found in self._elsewhere.items() if name in gateways}

    def commit_begins(self, group: str) -> None:
        """A commit of the group passed its gate; it may reach the target at any time until `commit_ends`."""
        self._commits[group] = self._commits.get(group, 0) + 1

    def commit_ends(self, group: str) -> None:
        """It was answered, or its connection closed."""
        self._commits[group] -= 1
        if not self._commits[group]:
            del self._commits[group]
            for callback in self._answered.pop(group, ()):
                callback()

    def commits_under_way(self, group: str) -> int:
        """Commits of the group that passed its gate and were not answered yet."""
        return self._commits.get(group, 0)

    def when_answered(self, group: str, callback: Callable[[], None]) -> None:
        """Call `callback` once none of the group's commits is under way; now, if that is so."""
        if group in self._commits:
            self._answered.setdefault(group, []).append(callback)
        else:
            callback()

    def saw(self, identity: Identity, group: str) -> None:
        """Remember that this client speaks for the group."""
        self._groups_of.setdefault(identity, set()).add(group)

    def groups_of(self, identity: Identity) -> frozenset[str]:
        """The groups the client was seen with."""
        return frozenset(self._groups_of.get(identity, ()))

    def reads_gated(self, identity: Identity, *, groupless_allowed: bool) -> bool:
        """True when a Fetch of a mirrored topic by this client must come back empty.

        A client is let through when one of its groups is open; without any group the policy decides. A group that
        was only heard of (FindCoordinator, then assigned partitions) knocks here.
        """
        if not self.enabled:
            return False
        groups = self._groups_of.get(identity)
        if not groups:
            return not groupless_allowed
        return not any(self.status(group) is GateStatus.OPEN for group in tuple(groups))
