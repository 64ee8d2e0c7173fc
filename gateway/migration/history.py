"""What mirrors looked like over the last hour, a sample a minute: bypassing writers, and the trend of the lag.

Kept while a gateway leads, of mirrors that it knows; a new leader begins anew, and says less until then. So it is of a
topic that is mirrored anew, or in the other direction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from gateway.mirror.interface import PartitionStatus
from gateway.state.mirror_states import tag_of
from gateway.state.records import MirrorRecord

SAMPLE_EVERY_S: Final = 60.0
KEPT: Final = 60
TREND: Final = 5
"""Samples over which a lag has grown, or not."""


class MirrorSample(NamedTuple):
    """Of a mirror topic. `bypassed`: records of that minute that came beside the gateway. `lag`: records, None where it
    was not known."""

    bypassed: int
    lag: int | None


class MirrorTrends:
    """By (link, mirror topic).

    Args:
        mirrors: as they are now.
        running: the partitions of a mirror that runs; empty when it does not.
    """

    def __init__(
        self,
        mirrors: Mapping[tuple[str, str], MirrorRecord],
        running: Callable[[MirrorRecord], Sequence[PartitionStatus]],
    ) -> None:
        self._mirrors = mirrors
        self._running = running
        self._kept: dict[tuple[str, str], tuple[str, deque[MirrorSample]]] = {}

    async def look(self) -> None:
        """Take a sample of each mirror that runs."""
        self._kept = {key: kept for key, kept in self._kept.items() if key in self._mirrors}
        for key, mirror in self._mirrors.items():
            partitions = self._running(mirror)
            if partitions:
                samples = self._of(*key) or deque(maxlen=KEPT)
                samples.append(sample(partitions))
                self._kept[key] = tag_of(mirror), samples

    def _of(self, link: str, topic: str) -> deque[MirrorSample]:
        """Of this very mirror; none that an older one of its name, or of its other direction, has left."""
        mirror, (tag, samples) = self._mirrors.get((link, topic)), self._kept.get((link, topic), ("", deque()))
        return samples if mirror is not None and tag == tag_of(mirror) else deque()

    def bypassed(self, link: str, topic: str) -> int:
        """Records of the last hour, as far as it was looked at, that came beside the gateway."""
        return sum(one.bypassed for one in self._of(link, topic))

    def lag_before(self, link: str, topic: str) -> int | None:
        """The lag some minutes ago; None when it is not known."""
        samples = self._of(link, topic)
        return samples[-TREND].lag if len(samples) >= TREND else None


def sample(partitions: Sequence[PartitionStatus]) -> MirrorSample:
    """Of the partitions of a mirror."""
    lags = [one.lag for one in partitions]
    lag = None if None in lags else sum(each or 0 for each in lags)
    return MirrorSample(sum(one.bypassed_last_minute for one in partitions), lag)
