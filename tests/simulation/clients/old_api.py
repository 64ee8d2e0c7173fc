"""A pipeline whose library commits offsets in transactions by the old API: TxnOffsetCommit without the member's id and
generation, as `sendOffsetsToTransaction(map, groupId)` of the Java client, aiokafka and sarama send it.

The coordinator does not look at the group then: its consumer may have left, and its offsets come all the same. So it is
here: asked to go somewhere else the consumer leaves its group, and the last transaction is ended behind that, some time
later, wherever the group is by then. The producer may be at the gateways while the consumer still reads on the source.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from gateway.kafka.cluster import Cluster
from tests.simulation.clients.client import Bootstrap, Client
from tests.simulation.clients.member import Read
from tests.simulation.clients.membership import Lost, Membership, Rewind
from tests.simulation.clients.pipeline import Pipeline
from tests.simulation.clients.sequences import Key
from tests.simulation.clients.transactions import Transactions

_NOBODY: Final = ("", -1)
_SOON_S: Final = 2.0
_LATE_S: Final = (0.0, 1.0, 4.0, 8.0)
"""From when the consumer has left to its last offsets; the most is longer than a group takes to change sides."""


class OldApiPipeline(Pipeline):
    """Its group has no other member. See the module.

    Attributes:
        producer_at: where its producer connects, if not where its consumer does.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.producer_at: Bootstrap = ""
        self._own: Cluster | None = None
        self._left, self._leaving = asyncio.Event(), False
        self._standby = _Standby(self)
        self._moving: asyncio.Task[None] | None = None

    def start(self, bootstrap: Bootstrap | None = None, side: str | None = None) -> None:
        self._left, self._leaving = asyncio.Event(), False
        super().start(bootstrap, side)

    async def stop(self) -> None:
        if self._moving is not None:
            await asyncio.wait([self._moving])
        await self._standby.stop()
        await super().stop()

    async def leave(self) -> None:
        """Wait until the consumer has left: out of a transaction, if there is one soon."""
        if self._task is None:
            return
        self._leaving = True
        left = self.spawn(self._has_left(), "waits for the consumer")
        for patience_s in (_SOON_S, None):
            await asyncio.wait([left, self._task], timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            self.ask_to_stop()
        left.cancel()

    async def move(self, bootstrap: Bootstrap, side: str) -> None:
        """Somebody else of the group waits there already while the last transaction is ended here."""
        await self.leave()
        if self.running:
            self._standby.start(bootstrap, side)
        self._moving = self.loop.spawn(self.loop.lab, self._moved(bootstrap, side), f"{self.name} moves")

    async def live(self) -> None:
        """The producer's connections are closed with the consumer's."""
        try:
            await super().live()
        finally:
            if self._own is not None:
                await self._own.close()
                self._own = None

    async def prepare(self, cluster: Cluster) -> None:
        """Take over the transactional id, by the producer's place."""
        if self.producer_at:
            self._own = self.open_cluster(self.producer_at)
        await super().prepare(self._own or cluster)

    async def act_on(self, membership: Membership, read: Read) -> None:
        """What was aborted behind the consumer is read again by the next one."""
        try:
            await super().act_on(membership, read)
        except Rewind as rewind:
            if self._left.is_set():
                raise Lost("the consumer has left") from rewind
            raise

    async def bring_offsets(
        self, transactions: Transactions, membership: Membership, offsets: Mapping[Key, int]
    ) -> None:
        """Without saying who it is."""
        await transactions.add_offsets(self.group)
        if self._leaving:
            self.ask_to_stop()
            await membership.leave()
            self._left.set()
            await asyncio.sleep(self.rng.choice(_LATE_S))
        await transactions.commit_offsets(self.group, offsets, _NOBODY)

    async def _has_left(self) -> None:
        await self._left.wait()

    async def _moved(self, bootstrap: Bootstrap, side: str) -> None:
        await super().stop()
        self.start(bootstrap, side)


class _Standby(Client):
    """Another process of the application: comes to the group, and leaves it when it is let in."""

    def __init__(self, of: OldApiPipeline) -> None:
        super().__init__(of.loop, f"{of.name}-standby", of.bootstrap, of.recorder)
        self._of = of

    async def live(self) -> None:
        """It reads nothing."""
        cluster = self.open_cluster()
        try:
            if await self.metadata(cluster, self._of.topics):
                membership = Membership(self, cluster, self._of.group, self._of.topics)
                await membership.join()
                await membership.leave()
        finally:
            await cluster.close()
