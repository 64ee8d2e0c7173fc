"""Which partitions this gateway mirrors, from moment to moment; beats, takeover and hand-over.

Every gateway of a fleet has one, sidecars too: it beats, and knows from the others' beats how far their mirrors are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from gateway.domain.assignment import FleetAssignment
from gateway.domain.ports import PartitionStatus
from gateway.domain.progress import MirrorProgress
from gateway.domain.records import MirrorRecord
from gateway.net.peers import Peers


class FleetMirrors:
    """See the module.

    Args:
        name: this gateway's.
        peers: its `handlers` get what other gateways ask of mirrors; `Peers.on_beat` must be `heard`.
        engine: links and mirrors are started and stopped in it by others, as the records say; this decides which of
            their partitions run here.
        progress: advanced for the partitions that others mirror, too.
        records: the mirrors of the state topic, as read now.

    Attributes:
        on_silent: told who is suspected, when that changes; the leader has the group drop them.
        aside: at the leader: (link, topic) of mirrors that somebody else copies now (`StandAside`).
        add: more to say in each beat, as JSON under "more"; `on_more` gets it: (gateway, what it said).
    """

    def __init__(
        self,
        *,
        name: str,
        peers: Peers,
        engine: Any,
        progress: MirrorProgress,
        records: Callable[[], Iterable[MirrorRecord]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._peers = peers
        self._engine = engine
        self._progress = progress
        self._records = records
        self._clock = clock
        self.on_silent: Callable[[frozenset[str]], None] = lambda silent: None
        self.aside: Callable[[], Collection[tuple[str, str]]] = tuple
        self.add: Callable[[], Mapping[str, Any]] = dict
        self.on_more: Callable[[str, Mapping[str, Any]], None] = lambda gateway, said: None

    def start(self) -> None:
        """Begin to beat and to listen."""

    def assigned(self, assignment: FleetAssignment | None) -> None:
        """The group's assignment; None: the group has forgotten this gateway, which mirrors nothing then."""

    def records_changed(self) -> None:
        """The state topic was read on, or `aside` changed."""

    def heard(self, gateway: str, said: Mapping[str, Any]) -> None:
        """A beat came."""

    def silent(self) -> frozenset[str]:
        """Who is suspected now."""
        return frozenset()

    def status(self, link: str, topic: str) -> Sequence[PartitionStatus]:
        """All partitions of a mirror, in order, whoever mirrors them; as told in the last second."""
        return ()

    async def quiet(self, topic: str) -> None:
        """Mirror nothing of the topic here any more, and wait until no append is in flight."""

    async def leave(self) -> None:
        """Hand everything over to the others; at most about 2 s."""

    async def close(self) -> None:
        """Stop beating."""
