"""Which consumer groups may read on the target, who waits at the gate, and which clients belong to whom.

Whether a gate is open is one function of what is known here, at the gateway that leads as at those that follow; nobody
sets it:

* a group with a record: open when the record says PROMOTED, unless the gate is shut by command (`commands.py`) or
  by an operation of this gateway;
* a group without one: open when it was let in for having nothing to do with what is mirrored. That was found out from
  the state up to some offset, and holds until a mirror is stored behind it. Then the group is asked about again; the
  offset is kept, since of links that have no mirror behind it nothing new is to be found out;
* else nobody knows, and its requests wait.

The proxy's handlers ask and wait here. No I/O, one event loop: a waiter is a callback, deadlines are the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from itertools import count
from typing import Final, NamedTuple

from gateway.groups.gate.rules.commands import GateCommand, GateCommands
from gateway.groups.gate.rules.questions import Questions
from gateway.groups.gate.rules.seen_groups import SeenGroups
from protocol.apis import ApiKey

LET_IN_KEPT = 100_000
CLIENT_ID_CHARS = 255
JOINS: Final = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
    }
)
"""By these a member comes to its group."""
ASKS_OFFSETS: Final = frozenset({ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT})
"""By these a consumer comes that assigns its partitions itself; so do tools that look at groups."""
READS_S: Final = 30.0
"""For how long a commit or Fetch tells that who asks for offsets reads: longer than a request of either waits."""
READERS_KEPT: Final = 10_000
COMMITS_S: Final = 10.0
"""For how long an operation waits for the answers of commits that are under way."""


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


def named(client_id: str) -> str:
    """A client.id of a length that can be kept and told: of a longer one the beginning, and what tells it apart."""
    if len(client_id) <= CLIENT_ID_CHARS:
        return client_id
    return f"{client_id[: CLIENT_ID_CHARS - 20]}...{sha256(client_id.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Waiter:
    """A client waiting at a gate. `since` is the monotonic clock in seconds.

    `counts`: it may read the group, and may be one of those that the group is promoted for (`members_of`). Who may only
    look at a group (Describe), or asks in a way that no member does, waits as well, and is seen by nobody.
    `instance_id`: of a static member, '' of others. `session_timeout_s`: as it asks for it, by which its group will
    count it as gone; 0 when it does not say (KIP-848: the broker does). `api`: the key of the API that it waits by.
    """

    group: str
    identity: Identity
    since: float
    counts: bool = True
    instance_id: str = ""
    session_timeout_s: float = 0.0
    api: int = ApiKey.JOIN_GROUP
    reads: bool = False

    @property
    def is_consumer(self) -> bool:
        """By what it has asked for here it is one, and no tool that looks at the group."""
        return self.api in JOINS or self.api == ApiKey.OFFSET_COMMIT or self.reads


def members_of(waiters: Sequence[Waiter], *, by_commits_alone: bool) -> list[Waiter]:
    """Those of a group's waiters that it may be promoted for.

    Whoever asks for offsets may be a tool, at the very moment when the group has no member since it is restarted on the
    source; lag exporters name partitions as consumers do. So that counts alone of a client that has committed here, or
    fetched, and for a group alone that its source knows `by_commits_alone`: nobody has ever joined it.
    """
    return [each for each in waiters if each.api in JOINS or (by_commits_alone and each.is_consumer)]


def unanswered(group: str) -> str:
    """Why an operation does not wait any longer for a commit that is under way."""
    return f"a commit of group '{group}' was not answered for {COMMITS_S:g} s"


class RecordedGate(NamedTuple):
    """What a group's record says. `changed_at`: the offset of the state topic at which it was last changed.
    `promoting`: PENDING_PROMOTED, so its offsets on the source are being carried over."""

    promoted: bool
    changed_at: int
    link: str = ""
    promoting: bool = False


class GroupGates:
    """Status per group, waiters per group, and the groups each client identity was seen with.

    `on_unknown(group)` is called once per group that nobody knows; whoever handles it must end in `let_in`, or in a
    record. While `enabled` is False (no link has a gated topic) every group is OPEN. `on_waiters` is called when
    somebody begins or ends to wait here.
    """

    __slots__ = (
        "_answered",
        "_asking",
        "_commands",
        "_commits",
        "_elsewhere",
        "_enabled",
        "_groups_of",
        "_grown_at",
        "_held",
        "_keys",
        "_known",
        "_let_in",
        "_questions",
        "_readers",
        "_recorded",
        "_waiters",
        "on_unknown",
        "on_waiters",
    )

    def __init__(self) -> None:
        self.on_unknown: Callable[[str], None] = lambda group: None
        self._enabled = False
        self._recorded: Mapping[str, RecordedGate] = {}
        self._grown_at = -1
        self._let_in: dict[str, int] = {}
        self._held: set[str] = set()
        self._commands = GateCommands()
        self._questions = Questions()
        self._asking = False
        self._waiters: dict[str, dict[int, tuple[Waiter, Callable[[], None]]]] = {}
        self._groups_of: SeenGroups[Identity] = SeenGroups()
        self._keys = count()
        self._commits: dict[str, int] = {}
        self._answered: dict[str, list[Callable[[], None]]] = {}
        self._known: dict[str, list[Callable[[], None]]] = {}
        self._elsewhere: dict[str, list[Waiter]] = {}
        self._readers: dict[tuple[Identity, str], float] = {}
        self.on_waiters: Callable[[], None] = lambda: None

    @property
    def enabled(self) -> bool:
        """Some topic is mirrored."""
        return self._enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        if value != self._enabled:
            self._enabled = value
            self._questions.clear()  # whoever is asked while nothing is gated need not answer
            self._look()

    # -- open or not -------------------------------------------------------------------------------------------

    def status(self, group: str) -> GateStatus:
        """The group's status; an unknown one is reported to `on_unknown` the first time, when its turn has come."""
        found = self.known_status(group)
        if found is GateStatus.UNKNOWN and self._questions.add(group):
            self.on_unknown(group)
            found = self._verdict(group)  # the answer may already be known
        return found

    def known_status(self, group: str) -> GateStatus:
        """As `status`, but nobody is asked about an unknown group."""
        return self._verdict(group) if self._enabled else GateStatus.OPEN

    def _verdict(self, group: str) -> GateStatus:
        record = self._recorded.get(group)
        if record is not None:
            shut = group in self._held or self._commands.is_shut(group, record.changed_at)
            return GateStatus.OPEN if record.promoted and not shut else GateStatus.CLOSED
        return GateStatus.UNKNOWN if self.let_in_at(group) is None else GateStatus.OPEN

    def is_changing_sides(self, group: str) -> bool:
        """Its offsets are being carried over, to the target or back: what is committed meanwhile, on either side, may
        be left behind."""
        record = self._recorded.get(group)
        return self._enabled and record is not None and (record.promoting or self.is_going_home(group))

    def is_going_home(self, group: str) -> bool:
        """It is promoted, and an operation keeps its gate shut, to take its offsets back; which may be given up."""
        record = self._recorded.get(group)
        return self._enabled and record is not None and record.promoted and self._verdict(group) is GateStatus.CLOSED

    def link_of(self, group: str) -> str:
        """The link whose mirror group it is; '' of one without a record."""
        record = self._recorded.get(group)
        return "" if record is None else record.link

    def recorded(self, groups: Mapping[str, RecordedGate], grown_at: int) -> None:
        """What the records say now; releases who waits at a gate that is open now.

        Args:
            groups: every group with a record.
            grown_at: the offset of the state topic at which a mirror was stored last that was not there before. Groups
                that were let in by what was known before are asked about again, at once.
        """
        before, self._recorded, self._grown_at = self._grown_at, groups, grown_at
        for group in [group for group in self._let_in if group in groups]:
            del self._let_in[group]
        grown = before < grown_at
        outdated = [group for group, as_of in self._let_in.items() if before <= as_of < grown_at] if grown else []
        self._look()
        if self._enabled:
            for group in outdated:
                self.status(group)

    def let_in(self, group: str, as_of: int) -> bool:
        """The group has nothing to do with the mirrors that are stored up to this offset of the state topic.

        False when that says nothing any more: a mirror more is stored, or the group has a record.
        """
        if as_of < self._grown_at or group in self._recorded:
            return False
        self._let_in.pop(group, None)  # it was let in last, and is forgotten last
        self._let_in[group] = as_of
        if len(self._let_in) > LET_IN_KEPT:
            del self._let_in[next(iter(self._let_in))]  # it is asked about again when it comes again
        self._look_at(group)
        return True

    def let_in_at(self, group: str) -> int | None:
        """Up to which offset the group is known to have nothing to do with a mirror; None if that is not known now."""
        as_of = self._let_in.get(group)
        return None if as_of is None or as_of < self._grown_at else as_of

    def last_let_in(self, group: str) -> int:
        """Up to which offset it was known last to have nothing to do with a mirror, if it does now or not; -1 if never.

        A group that got a record since begins anew.
        """
        return self._let_in.get(group, -1)

    def hold(self, group: str) -> None:
        """An operation of this gateway keeps the group's gate shut, whatever its record says."""
        self._held.add(group)

    def let_go(self, group: str) -> None:
        """The end of `hold`: the group's record is in force again."""
        self._held.discard(group)
        self._look_at(group)

    def shut(self, group: str, command: GateCommand) -> None:
        """The leader keeps the group's gate shut, whatever its record says."""
        self._commands.shut(group, command)

    def open(self, group: str, command: GateCommand) -> None:
        """The end of `shut`. To be called when the records are read up to the command's offset."""
        self._commands.open(group, command)
        self._look_at(group)

    def assigned(self, term: int, offset: int, shut: Iterable[str]) -> None:
        """This gateway follows, and has read the state up to `offset`: what its leader keeps shut, and nothing else."""
        self._held.clear()
        self._commands.assigned(term, offset, shut)
        self._look()

    def term_begins(self) -> None:
        """This gateway leads, and has read all that was written before: nothing is shut beside the records."""
        self._held.clear()
        self._commands.clear()
        self._look()

    def _look(self) -> None:
        """Something has changed for any group: of those that somebody waits for, who is known and who may go on."""
        for group in {*self._questions.under_way(), *self._known, *self._waiters}:
            self._look_at(group)

    def _look_at(self, group: str) -> None:
        status = self.status(group)  # asks about one that nobody knows any more, if somebody waits for it
        if status is GateStatus.UNKNOWN:
            return
        self._questions.known(group)
        self._ask_next()
        for callback in self._known.pop(group, ()):
            callback()
        if status is GateStatus.OPEN:
            for _, release in list(self._waiters.get(group, {}).values()):
                release()

    def _ask_next(self) -> None:
        """There may be room for another question. An answer that comes at once makes room for the next."""
        if self._asking:
            return
        self._asking = True
        try:
            while (group := self._questions.next()) is not None:
                if self._verdict(group) is GateStatus.UNKNOWN:
                    self.on_unknown(group)
                else:
                    self._questions.known(group)
        finally:
            self._asking = False

    def when_known(self, group: str, callback: Callable[[], None]) -> None:
        """Call `callback` once it is known whether the group may read; now, if it is. One that makes a first request
        counts."""
        if self.status(group) is GateStatus.UNKNOWN:
            self._known.setdefault(group, []).append(callback)
        else:
            callback()

    def unknown(self) -> list[str]:
        """Every group that is asked about and has no answer yet."""
        return [group for group in self._questions.under_way() if self._verdict(group) is GateStatus.UNKNOWN]

    # -- who waits ---------------------------------------------------------------------------------------------

    def wait(self, waiter: Waiter, release: Callable[[], None]) -> int:
        """Register a waiter; `release` is called when the gate opens. Returns the key for `leave`."""
        if waiter.counts and waiter.api == ApiKey.OFFSET_COMMIT:
            self._reads(waiter.identity, waiter.group, waiter.since)
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

    def is_asked_about(self, group: str) -> bool:
        """Whether somebody has asked for an unknown group already, so that it costs no further question."""
        return self._questions.has(group)

    def waiters(self, group: str) -> list[Waiter]:
        """Who waits at the group's gate now, at this gateway and others that have told."""
        here = [self._seen(waiter) for waiter, _ in self._waiters.get(group, {}).values() if waiter.counts]
        return here + [waiter for found in self._elsewhere.values() for waiter in found if waiter.group == group]

    def waiting_here(self) -> list[Waiter]:
        """Who waits at this gateway's gates."""
        waiting = (waiter for entries in self._waiters.values() for waiter, _ in entries.values() if waiter.counts)
        return [self._seen(waiter) for waiter in waiting]

    def fetches(self, identity: Identity, at: float) -> None:
        """A client that may not read yet fetches what is mirrored. `at`: the clock of `Waiter.since`.

        That tells of its group, if it was seen with one: of several, it may read for any, and only look at the others.
        """
        groups = self._groups_of.of(identity)
        if len(groups) == 1:
            self._reads(identity, next(iter(groups)), at)

    def _reads(self, identity: Identity, group: str, at: float) -> None:
        self._readers.pop((identity, group), None)  # it was seen last, and is forgotten last
        self._readers[identity, group] = at
        if len(self._readers) > READERS_KEPT:
            del self._readers[next(iter(self._readers))]

    def _seen(self, waiter: Waiter) -> Waiter:
        if waiter.api != ApiKey.OFFSET_FETCH:
            return waiter
        at = self._readers.get((waiter.identity, waiter.group))
        return waiter if at is None or at < waiter.since - READS_S else replace(waiter, reads=True)

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

    def has_commits(self, group: str) -> bool:
        """A commit of the group is under way through this gateway."""
        return group in self._commits

    def when_answered(self, group: str, callback: Callable[[], None]) -> None:
        """Call `callback` once none of the group's commits is under way; now, if that is so."""
        if group in self._commits:
            self._answered.setdefault(group, []).append(callback)
        else:
            callback()

    def saw(self, identity: Identity, group: str) -> None:
        """Remember that this client speaks for the group."""
        self._groups_of.add(identity, group)

    def groups_of(self, identity: Identity) -> frozenset[str]:
        """The groups the client was seen with."""
        return frozenset(self._groups_of.of(identity))

    def reads_gated(
        self, identity: Identity, *, groupless_allowed: bool, lease_valid: Callable[[], bool] = lambda: True
    ) -> bool:
        """True when a Fetch of a mirrored topic by this client must come back empty.

        A client is let through when one of its groups is open; without any group the policy decides. A group that
        was only heard of (FindCoordinator, then assigned partitions) makes its first request here. Without a valid
        lease (`fleet/rules/leases.py`) none is: it may have been demoted behind this gateway's back, or one of its
        topics been mirrored.
        """
        if not self.enabled:
            return False
        groups = self._groups_of.of(identity)
        if not groups:
            return not groupless_allowed
        return not (any(self.status(group) is GateStatus.OPEN for group in tuple(groups)) and lease_valid())
