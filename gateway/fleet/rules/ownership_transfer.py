"""Handing partitions over from gateway to gateway: who waits for whom. Pure; `now` is monotonic seconds.

A partition that is to run here and ran elsewhere is asked for first: the other one stops, waits for its appends, and
answers. It goes on until it is asked, so that it is nobody's for the time of that answer only. Whoever does not ask in
`LINGER_S` is not waited for: two appenders of a partition do no harm.

What was given away stays away until it is known here too that it is another's, whoever took it is silent, or `GIVEN_S`
have passed: the assignment or record that gave it to the other gateway may not have come here yet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gateway.mirror.rules.mirror_partition import MirrorPartition

LINGER_S = 2.0
GIVEN_S = 5.0


class OwnershipTransfer:
    """What runs in this gateway (`here`), what is asked for, and what it still runs for others."""

    def __init__(self) -> None:
        self.here: frozenset[MirrorPartition] = frozenset()
        self._wanted: frozenset[MirrorPartition] = frozenset()
        self._asked: set[MirrorPartition] = set()
        self._lingering: dict[MirrorPartition, float] = {}
        self._given: dict[MirrorPartition, tuple[float, str]] = {}  # until when, to whom

    def reassigned(self) -> None:
        """A new assignment is there: what was given away is decided by it."""
        self._given.clear()

    def want(
        self,
        wanted: frozenset[MirrorPartition],
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
        self._given = {
            each: (until, to)
            for each, (until, to) in self._given.items()
            if until > now and to not in silent and each in wanted  # else it is known here too that it is another's
        }
        self._wanted = wanted = wanted.difference(self._given, at_once)
        self._asked &= wanted
        for each in [each for each in self._lingering if each in wanted]:
            del self._lingering[each]
        for each in self.here - wanted:
            self._lingering.setdefault(each, now + LINGER_S)
        ask: dict[str, set[MirrorPartition]] = {}
        start = set()
        for each in wanted - self.here - self._asked:
            holder = holders.get(each)
            if holder is None:
                start.add(each)
            else:
                ask.setdefault(holder, set()).add(each)
                self._asked.add(each)
        gone = {each for each, until in self._lingering.items() if until <= now}.union(at_once)
        self._stop(gone)
        self.here |= start
        return {name: frozenset(found) for name, found in ask.items()}

    def answered(self, partitions: Collection[MirrorPartition]) -> None:
        """They were released, or whoever had them does not answer: those that are still wanted run here now."""
        self.here |= self._wanted.intersection(self._asked, partitions)
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
        given = self.here.intersection(partitions)
        self._given.update(dict.fromkeys(self._wanted.intersection(partitions), (now + GIVEN_S, to)))
        self._wanted -= frozenset(partitions)
        self._stop(given)
        return given

    def due(self, now: float) -> bool:
        """Some of the times have passed: `want` should be asked again."""
        return any(at <= now for at in (*self._lingering.values(), *(until for until, _ in self._given.values())))

    @property
    def waiting(self) -> frozenset[MirrorPartition]:
        """Asked for, and not here yet."""
        return frozenset(self._asked)

    def _stop(self, partitions: Collection[MirrorPartition]) -> None:
        self.here = self.here.difference(partitions)
        for each in partitions:
            self._lingering.pop(each, None)
