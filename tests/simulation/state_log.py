"""The state topic of a simulated gateway: what `control/state_topic.py` does, over our own client and the network.

librdkafka cannot live in virtual time, so this does as it does: a reader that fetches all the time, and a producer
with a transactional id that tries again until the time is over, and goes on where it stopped. Blocking, like the
original: the store runs it in "threads", which are greenlets here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from gateway.control.state_reader import MORE, WRITER_KEY, Entry
from gateway.control.state_topic import TOPIC, Change
from gateway.control.store_errors import StoreError
from gateway.domain.topic_configs import INTERNAL
from gateway.net.admin import AdminError, create_topic, describe_topic_configs
from gateway.net.backoff import Backoff
from gateway.net.cluster import Cluster
from gateway.net.config import ClusterConfig
from gateway.net.errors import BrokerError, NetError
from gateway.net.host import Host
from protocol.aborted import AbortedTransactions
from protocol.apis import ApiKey
from protocol.errors import ErrorCode, error_name, is_retriable
from protocol.fetch import FetchPartition, build_request_body, scan_response
from protocol.record_reader import read_records
from protocol.records import iter_batches
from tests.simulation.kernel import blocking
from tests.simulation.state_writer import BACKOFF_S, TRY_S, Writer, to_leader

_OPEN_S: Final = 30.0
_FETCH_WAIT_MS: Final = 500
_FETCH_BYTES: Final = 1024 * 1024
_BY_NAME_FETCH: Final = 12
_MAX_RECORD_BYTES: Final = 32 * 1024 * 1024
_JUST_CREATED: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class SimStateTopic:
    """Implements `gateway.control.store.Log`. Made by `Host.state_log`."""

    def __init__(self, config: ClusterConfig, instance: str, host: Host) -> None:
        self._instance = instance
        self._host = host
        self._cluster = Cluster(config, host=host)
        self._reader: _Reader | None = None
        self._writer: Writer | None = None

    def open(self) -> list[Entry]:
        """See `StateTopic.open`; so for the others."""
        try:
            return blocking.wait(self._open())
        except (NetError, TimeoutError) as exc:
            raise StoreError(f"the state topic on the target could not be opened: {exc}") from exc

    def read(self, timeout_s: float) -> list[Entry]:
        """What came since."""
        if self._reader is None:
            raise StoreError("the state topic is not open")
        return self._reader.taken() or blocking.wait(self._reader.news(timeout_s))

    def lead(self) -> int:
        """Fence whoever wrote before; returns the term."""
        self.resign()
        self._writer = Writer(self._cluster, self._host)
        blocking.wait(self._writer.init())
        return self.commit([(WRITER_KEY, json.dumps({"v": 1, "instance": self._instance}).encode())])

    def resign(self) -> None:
        """Write no more; what is open is ended by whoever leads next."""
        self._writer = None

    def commit(self, changes: Sequence[Change]) -> int:
        """Write all changes, or none; returns the offset of the last."""
        return blocking.wait(self._leading().commit(changes))

    def settle(self) -> int:
        """End a commit of unknown outcome; its offset when it was made, -1 when there was none."""
        if self._writer is None or self._writer.unended is None:
            return -1
        return blocking.wait(self._writer.settle())

    def close(self) -> None:
        """Close the clients."""
        self.resign()
        blocking.wait(self._close())

    def _leading(self) -> Writer:
        if self._writer is None:
            raise StoreError("this gateway does not lead the fleet: it cannot change the state")
        return self._writer

    async def _open(self) -> list[Entry]:
        async with asyncio.timeout(_OPEN_S):
            await self._cluster.start(_OPEN_S, topics=())
            view = await self._cluster.refresh((TOPIC,))
            found = view.topics.get(TOPIC)
            if found is not None and found.partitions:
                await self._check(len(found.partitions))
            else:
                await self._create(min(3, len(view.brokers)))
            self._reader = _Reader(self._cluster)
            return await self._reader.to_end()

    async def _create(self, replicas: int) -> None:
        configs = {**INTERNAL, "max.message.bytes": str(_MAX_RECORD_BYTES)}
        try:
            await create_topic(self._cluster, TOPIC, partitions=1, replication_factor=replicas, configs=configs)
        except AdminError as exc:
            if exc.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    async def _check(self, partitions: int) -> None:
        configs = (await describe_topic_configs(self._cluster, (TOPIC,)))[TOPIC]
        if partitions != 1 or configs["cleanup.policy"].value != "compact":
            raise StoreError(f"topic {TOPIC} exists on the target, but it is not lockgate's state")

    async def _close(self) -> None:
        if self._reader is not None:
            await self._reader.close()
        await self._cluster.close()


class _Reader:
    """Fetches the topic from its beginning, all the time; whole changes only come out."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._position = 0
        self._change: list[Entry] = []
        self._ready: list[Entry] = []
        self._failure = ""
        self._at_end = asyncio.Event()
        self._news = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="state reader")

    def taken(self) -> list[Entry]:
        """What is there. Raises StoreError when the topic cannot be read any more."""
        if self._failure:
            raise StoreError(self._failure)
        ready, self._ready = self._ready, []
        self._news.clear()
        return ready

    async def news(self, timeout_s: float) -> list[Entry]:
        """What comes within the time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        return self.taken()

    async def to_end(self) -> list[Entry]:
        """All that is committed now."""
        await self._at_end.wait()
        return self.taken()

    async def close(self) -> None:
        """Read no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        backoff = Backoff(*BACKOFF_S, self._cluster.rng)
        while not self._failure:
            try:
                await self._fetch()
                backoff.reset()
            except NetError:
                self._cluster.invalidate(TOPIC)
                await asyncio.sleep(backoff.next())
        self._at_end.set()
        self._news.set()

    async def _fetch(self) -> None:
        connection = await to_leader(self._cluster, "state-reader")
        version = connection.version(ApiKey.FETCH, _BY_NAME_FETCH)
        body = build_request_body(
            version,
            {TOPIC: [FetchPartition(0, self._position, _FETCH_BYTES)]},
            max_wait_ms=_FETCH_WAIT_MS,
            max_bytes=_FETCH_BYTES,
            read_committed=True,
        )
        answer = scan_response(await connection.exchange(connection.send, ApiKey.FETCH, version, body, TRY_S), version)
        code = answer.error_code or (answer.parts[0].error_code if answer.parts else ErrorCode.UNKNOWN_SERVER_ERROR)
        if code:
            if not is_retriable(code) and code not in (_JUST_CREATED, ErrorCode.UNKNOWN_SERVER_ERROR):
                self._failure = f"the state topic on the target cannot be read: {error_name(code)}"
            raise BrokerError(code, error_name(code))
        part = answer.parts[0]
        aborted = AbortedTransactions(part.aborted)
        for header, batch in iter_batches(part.records):
            gone = aborted.is_aborted(header)
            if header.last_offset < self._position:
                continue
            if not gone and not header.is_control:
                self._take(header, batch)
            self._position = header.next_offset
        if self._position >= part.last_stable_offset:
            self._whole()
            self._at_end.set()

    def _take(self, header: Any, batch: memoryview) -> None:
        for record in read_records(header, batch):
            if record.offset < self._position or record.key is None:
                continue
            self._change.append(Entry(record.offset, record.key.decode("utf-8", "replace"), record.value))
            if MORE not in dict(record.headers):
                self._whole()

    def _whole(self) -> None:
        if self._change:
            self._ready += self._change
            self._change = []
            self._news.set()
