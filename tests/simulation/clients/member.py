"""A member of a consumer group: reads, records what it read, commits it, then reads on."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Final

from gateway.kafka.cluster import Cluster, NetError
from protocol.batch.record_reader import Record
from tests.simulation.clients.client import Bootstrap, Client, Fatal, ended
from tests.simulation.clients.fetching import Fetcher, earliest
from tests.simulation.clients.membership import Lost, Membership, Rewind
from tests.simulation.clients.sequences import Key
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.recorder import Recorder

_SETTLE_S: Final = 0.1
_REWIND_S: Final = 0.5
Read = dict[Key, list[Record]]
Positions = dict[tuple[str, str], int]


class GroupMember(Client):
    """Args:
    group: one that all its members name.
    topics: names; the group's leader finds out how many partitions they have.
    isolation: read_committed or read_uncommitted.
    positions: (side, key) -> next offset, of the whole group, if its members share it.

    Attributes:
        most: max.poll.records.
        min_bytes: fetch.min.bytes.
    """

    revives = True
    most = 500
    min_bytes = 1

    def __init__(
        self,
        loop: SimLoop,
        name: str,
        bootstrap: Bootstrap,
        group: str,
        topics: Collection[str],
        recorder: Recorder,
        isolation: str = "read_committed",
        *,
        positions: Positions | None = None,
        **options: Any,
    ) -> None:
        super().__init__(loop, name, bootstrap, recorder, **options)
        self.group, self.topics, self.isolation = group, sorted(topics), isolation
        self.positions: Positions = {} if positions is None else positions
        self.assigned: list[Key] = []
        self.rebalances = 0
        self._news = asyncio.Event()

    async def live(self) -> None:
        """Join, read, and join again, until it is to stop."""
        self.opened()
        cluster = self.open_cluster()
        membership = Membership(self, cluster, self.group, self.topics)
        try:
            if not await self.metadata(cluster, self.topics):
                return
            await self.prepare(cluster)
            while (keys := await membership.join()) is not None:
                self.rebalances += 1
                await self._read_generation(cluster, membership, keys)
                if self.stopping:
                    break
            await membership.leave()
        finally:
            self.finish()
            await cluster.close()

    async def leave(self) -> None:
        """Wait until the group has this member no more."""
        await self.stop()

    async def move(self, bootstrap: Bootstrap, side: str) -> None:
        """Leave the group, and come back to it by other servers."""
        await self.restart(bootstrap, side)

    # -- what a pipeline does in another way -----------------------------------------------------------------

    def opened(self) -> None:
        """Say who it is."""
        self.recorder.opened(self.process, self.side, group=self.group, reset="earliest", isolation=self.isolation)

    async def prepare(self, cluster: Cluster) -> None:
        """Before the first join of a life."""

    def finish(self) -> None:
        """At the end of a life."""

    async def act_on(self, membership: Membership, read: Read) -> None:
        """Record and commit what was read. Raises Lost, or Rewind."""
        offsets = self.recorded(read)
        named = {self.key(key): offset for key, offset in offsets.items()}
        self.recorder.write("invoke", self.process, "commit", named)
        kind = "unknown"
        try:
            await membership.commit(offsets)
            kind = "ok"
        except Lost as lost:
            kind = "fail" if lost.certain else "unknown"
            self.failed(f"commit: {lost}")
            raise
        finally:
            self.recorder.write(kind, self.process, "commit", named)

    # -- one generation --------------------------------------------------------------------------------------

    async def _read_generation(self, cluster: Cluster, membership: Membership, keys: list[Key]) -> None:
        self._news = asyncio.Event()
        heartbeat = self.spawn(self._heartbeats(membership), "heartbeats")
        self.assigned = keys
        self.recorder.write("ok", self.process, "assign", [self.key(key) for key in keys])
        fetcher = Fetcher(
            self,
            cluster,
            committed_only=self.isolation == "read_committed",
            took=self._news.set,
            min_bytes=lambda: self.min_bytes,
        )
        try:
            while True:
                fetcher.begin(await self._positions(cluster, membership, keys))
                try:
                    await self._read_on(membership, fetcher, heartbeat)
                except Rewind:
                    await self.pause(_REWIND_S)
                else:
                    break
        except Lost:
            pass  # what was read and not committed is read again, by whoever has it next
        finally:
            await ended(heartbeat)
            await fetcher.close()
            self.assigned = []
            self.recorder.write("ok", self.process, "revoke", [self.key(key) for key in keys])

    async def _read_on(self, membership: Membership, fetcher: Fetcher, heartbeat: asyncio.Task[None]) -> None:
        while True:
            going_on = await self._more(heartbeat)
            if fetcher.fatal:
                raise Fatal(fetcher.fatal)
            read = fetcher.take(self.most)
            if read and membership.member_id:
                await self.act_on(membership, read)
            if not going_on:
                if heartbeat.done():
                    heartbeat.result()
                return

    async def _more(self, heartbeat: asyncio.Task[None]) -> bool:
        """Wait for something to read, and a little more of it. False: it is the last time."""
        wait = self.spawn(self._news_or_stop(), "waits")
        try:
            await asyncio.wait([wait, heartbeat], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await ended(wait)
        if heartbeat.done() or self.stopping:
            return False
        self._news.clear()
        return await self.pause(_SETTLE_S)

    async def _news_or_stop(self) -> None:
        stop = asyncio.ensure_future(self.stop_asked())
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait([stop, news], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            news.cancel()

    async def _heartbeats(self, membership: Membership) -> None:
        await membership.heartbeat()

    async def _positions(self, cluster: Cluster, membership: Membership, keys: list[Key]) -> dict[Key, int]:
        if not keys:
            return {}
        found = await membership.committed(keys)
        new = [key for key in keys if key not in found]
        while new and not self.stopping:
            try:
                found |= await earliest(cluster, new)
                break
            except NetError:
                await self.pause(self.timing.retry_backoff)
        return {key: found[key] for key in keys if key in found}

    def recorded(self, read: Read) -> dict[Key, int]:
        """Record a poll; what is to be committed."""
        self.recorder.write("invoke", self.process, "poll", [["poll"]])
        told = {self.key(key): [[r.offset, text(r)] for r in records] for key, records in read.items()}
        self.recorder.write("ok", self.process, "poll", [["poll", told]])
        offsets = {key: records[-1].offset + 1 for key, records in read.items()}
        for key, offset in offsets.items():
            self.passed(self.key(key), offset)
        self.progress += sum(map(len, read.values()))
        return offsets

    def passed(self, name: str, offset: int) -> None:
        """The group has read a partition up to there."""
        where = self.side, name
        self.positions[where] = max(offset, self.positions.get(where, 0))

    def key(self, key: Key) -> str:
        """A partition as the history names it."""
        return self.recorder.key(self.side, *key)


def text(record: Record) -> str:
    """A record's value; one without a value was written by nobody here."""
    return f"(null at {record.offset})" if record.value is None else record.value.decode(errors="replace")
