"""Handing partitions over from gateway to gateway: who waits for whom. Pure; `now` is monotonic seconds.

A partition that is to run here and ran elsewhere is asked for first: the other one stops, waits for its appends, and
answers. It goes on until it is asked, so that it is nobody's for the time of that answer only. Whoever does not ask in
`LINGER_S` is not waited for: two appenders of a partition do no harm.

What was given away stays away until it is known here too that it is another's, whoever took it is silent, or `GIVEN_S`
have passed: the assignment or record that gave it to the other gateway may not have come here yet.

Each partition is decided on by itself. So what has changed is enough (`want_some`), with what is `unsettled`: of every
other one the same would be said again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set

from gateway.mirror.rules.period import MirrorPartition

LINGER_S = 2.0
GIVEN_S = 5.0


class OwnershipTransfer:
    """What runs in this gateway (`here`), what is asked for, and what it still runs for others."""

    def __init__(self) -> None:
        self._here: set[MirrorPartition] = set()
        self._told: frozenset[MirrorPartition] | None = frozenset()  # `here`, while nothing has changed
        self._moved: set[MirrorPartition] = set()
        self._wanted: set[MirrorPartition] = set()
        self._asked: set[MirrorPartition] = set()
        self._lingering: dict[MirrorPartition, float] = {}
        self._given: dict[MirrorPartition, tuple[float, str]] = {}  # until when, to whom

    @property
    def here(self) -> frozenset[MirrorPartition]:
        """All that runs in this gateway."""
        if self._told is None:
            self._told = frozenset(self._here)
        return self._told

    def runs(self, partition: MirrorPartition) -> bool:
        """It is one of `here`."""
        return partition in self._here

    def moved(self) -> frozenset[MirrorPartition]:
        """What began or ended to run here since that was asked last; some perhaps both."""
        found, self._moved = frozenset(self._moved), set()
        return found

    def reassigned(self) -> None:
        """A new assignment is there: what was given away is decided by it."""
        self._given.clear()

    def want(
        self,
        wanted: Set[MirrorPartition],
        holders: Mapping[MirrorPartition, str],
        now: float,
        *,
        at_once: Collection[MirrorPartition] = (),
        silent: Collection[str] = (),
    ) -> dict[str, frozenset[MirrorPartition]]:
        """What this gateway is to run from now on. Returns whom to ask for what; the rest runs already (`here`).

        Args:
            holders: who runs a partition now, of the other gateways that can be asked.
            at_once: what must not be run a moment longer, whoever runs it next.
            silent: gateways that run nothing any more, or are about to stop.
        """
        concerned = self.known.union(wanted, at_once)
        return self.want_some(concerned, wanted, holders, now, at_once=at_once, silent=silent)

    def want_some(
        self,
        concerned: Set[MirrorPartition],
        wanted: Set[MirrorPartition],
        holders: Mapping[MirrorPartition, str],
        now: float,
        *,
        at_once: Collection[MirrorPartition] = (),
        silent: Collection[str] = (),
    ) -> dict[str, frozenset[MirrorPartition]]:
        """As `want`, of those that are `concerned`: the others are wanted or not as was said before.

        Args:
            concerned: what is `unsettled`, and whatever else may be wanted now and was not, or the other way round.
            wanted, at_once: of these.
        """
        self._given = {
            each: (until, to)
            for each, (until, to) in self._given.items()
            if until > now and to not in silent and each in wanted  # else it is known here too that it is another's
        }
        wanted = set(wanted).difference(self._given, at_once)
        self._wanted -= concerned
        self._wanted |= wanted
        self._asked &= self._wanted
        for each in [each for each in self._lingering if each in wanted]:
            del self._lingering[each]
        for each in concerned - wanted:
            if each in self._here:
                self._lingering.setdefault(each, now + LINGER_S)
        ask: dict[str, set[MirrorPartition]] = {}
        start = set()
        for each in wanted:
            if each in self._here or each in self._asked:
                continue
            holder = holders.get(each)
            if holder is None:
                start.add(each)
            else:
                ask.setdefault(holder, set()).add(each)
                self._asked.add(each)
        self._stop({each for each, until in self._lingering.items() if until <= now}.union(at_once))
        self._start(start)
        return {name: frozenset(found) for name, found in ask.items()}

    @property
    def unsettled(self) -> frozenset[MirrorPartition]:
        """Of what time and the other gateways decide, too."""
        return frozenset((*self._given, *self._lingering))

    @property
    def known(self) -> frozenset[MirrorPartition]:
        """All of which anything is known: what is not among them does not run here, and is not to."""
        return frozenset().union(self._here, self._wanted, self._asked, self._given, self._lingering)

    def answered(self, partitions: Collection[MirrorPartition]) -> None:
        """They were released, or whoever had them does not answer: those that are still wanted run here now."""
        self._start(self._asked.intersection(partitions) & self._wanted)
        self._asked.difference_update(partitions)

    def give(
        self,
        partitions: Collection[MirrorPartition],
        to: str,
        now: float,
        *,
        keep: Collection[MirrorPartition] = (),
    ) -> frozenset[MirrorPartition]:
        """Another gateway asks for them. Returns those that run here, and do so no more.

        Args:
            keep: what goes on here all the same: something of this gateway stands on it. Two appenders do no harm.
        """
        partitions = frozenset(partitions).difference(keep)
        given = partitions & self._here
        self._given.update(dict.fromkeys(partitions & self._wanted, (now + GIVEN_S, to)))
        self._wanted -= partitions
        self._stop(given)
        return given

    def due(self, now: float) -> bool:
        """Some of the times have passed: `want` should be asked again."""
        return any(at <= now for at in (*self._lingering.values(), *(until for until, _ in self._given.values())))

    @property
    def waiting(self) -> frozenset[MirrorPartition]:
        """Asked for, and not here yet."""
        return frozenset(self._asked)

    def _start(self, partitions: Collection[MirrorPartition]) -> None:
        if partitions:
            self._told = None
            self._moved.update(partitions)
            self._here.update(partitions)

    def _stop(self, partitions: Collection[MirrorPartition]) -> None:
        for each in partitions:
            self._lingering.pop(each, None)
        gone = self._here.intersection(partitions)
        if gone:
            self._told = None
            self._moved |= gone
            self._here -= gone
