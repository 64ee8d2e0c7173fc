"""A member of a group that only the gateways know: the source has never heard of it.

There is nothing to carry over, so it may read as soon as the source was asked about it: copies of what is mirrored, and
what is written on the target. Every gateway has to hear of that, also one that began long after. It reads like a
consumer with a large fetch.min.bytes: what counts is that it is let in, not how fast it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from tests.simulation.clients.client import Timing
from tests.simulation.clients.member import GroupMember
from tests.simulation.clients.membership import Lost, Membership

_FETCH_WAIT_S: Final = 2.0
_MANY_BYTES: Final = 1_000_000


class Newcomer(GroupMember):
    """The only member of its group. It moves on to another gateway when its own is gone, as every client does.

    Its topics are those that are mirrored in the course of the run: it comes when all of them are.

    Attributes:
        waits_at: the gateway at which it waits to be let in, in the course of `go_round`.
        round_done: it was let in at each of them.
    """

    min_bytes = _MANY_BYTES

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, timing=Timing(fetch_max_wait=_FETCH_WAIT_S), **options)
        self._to_come = set(self.topics)
        self.waits_at = ""
        self.round_done = False
        self._round: asyncio.Task[None] | None = None

    def mirrored(self, topic: str, gateways: str) -> None:
        """A topic is there: with the last one of its own it comes to the gateways."""
        if topic in self._to_come:
            self._to_come.remove(topic)
            if not self._to_come:
                self.start(gateways)

    def go_round(self, gateways: Mapping[str, str]) -> None:
        """Ask each gateway (name -> bootstrap servers) for the group's offsets, the next as soon as one has answered:
        it does when the group is let in there.
        """
        self.min_bytes = 1
        self._round = self.spawn(self._go_round(gateways), "goes round")

    async def _go_round(self, gateways: Mapping[str, str]) -> None:
        for self.waits_at, bootstrap in gateways.items():
            cluster = self.open_cluster(bootstrap)
            try:
                await self.metadata(cluster, ())
                await self._offsets_told(Membership(self, cluster, self.group, self.topics))
            finally:
                await cluster.close()
        self.round_done = True

    async def _offsets_told(self, group: Membership) -> None:
        while True:
            try:
                await group.committed([(self.topics[0], 0)])
            except Lost:
                await self.pause(self.timing.retry_backoff_max)
            else:
                return
