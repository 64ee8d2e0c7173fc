"""The state topic of a simulated gateway: what `control/state_topic.py` does, over our own client and the network.

librdkafka cannot live in virtual time, so this does as it does: a reader that fetches all the time, and a producer
with a transactional id that tries again until the time is over, and goes on where it stopped. Blocking, like the
original: the store runs it in "threads", which are greenlets here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from gateway.control.state_reader import MORE, WRITER_KEY, Entry
from gateway.control.state_topic import TOPIC, TRANSACTIONAL_ID, Change
from gateway.control.store_errors import ProducerFenced, StoreError, StoreUncertain
from gateway.domain.topic_configs import INTERNAL
from gateway.net.admin import AdminError, create_topic, describe_topic_configs
from gateway.net.backoff import Backoff
from gateway.net.cluster import Cluster
from gateway.net.config import ClusterConfig
from gateway.net.connection import Connection
from gateway.net.errors import BrokerError, ClusterUnavailable, NetError
from gateway.net.host import Host
from protocol.aborted import AbortedTransactions
from protocol.apis import ApiKey
from protocol.errors import ErrorCode, error_name, is_retriable
from protocol.fetch import FetchPartition, build_request_body, scan_response
from protocol.messages import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest
from protocol.produce import build_request_body as build_produce
from protocol.produce import scan_response as scan_produced
from protocol.record_reader import read_records
from protocol.records import iter_batches
from tests.simulation.clients.records import Sent, record_body, stamped_batch
from tests.simulation.kernel import blocking

_T = TypeVar("_T")
_OPEN_S: Final = 30.0
_COMMIT_S: Final = 20.0
_TRY_S: Final = 5.0
_TIMEOUT_MS: Final = 60_000
_FETCH_WAIT_MS: Final = 500
_FETCH_BYTES: Final = 1024 * 1024
_BY_NAME_FETCH: Final = 12
_BY_NAME_PRODUCE: Final = 9
_MAX_RECORD_BYTES: Final = 32 * 1024 * 1024
_BACKOFF_S: Final = (0.05, 0.5)
_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
_MOVED: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_JUST_CREATED: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class SimStateTopic:
    """Implements `gateway.control.store.Log`. Made by `Host.state_log`."""

    def __init__(self, config: ClusterConfig, instance: str, host: Host) -> None:
        self._instance = instance
        self._host = host
        self._cluster = Cluster(config, host=host)
        self._reader: _Reader | None = None
        self._writer: _Writer | None = None

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
        self._writer = _Writer(self._cluster, self._host)
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

    def _leading(self) -> _Writer:
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
        backoff = Backoff(*_BACKOFF_S, self._cluster.rng)
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
        connection = await _to_leader(self._cluster, "state-reader")
        version = connection.version(ApiKey.FETCH, _BY_NAME_FETCH)
        body = build_request_body(
            version,
            {TOPIC: [FetchPartition(0, self._position, _FETCH_BYTES)]},
            max_wait_ms=_FETCH_WAIT_MS,
            max_bytes=_FETCH_BYTES,
            read_committed=True,
        )
        answer = scan_response(await connection.exchange(connection.send, ApiKey.FETCH, version, body, _TRY_S), version)
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


class _Abortable(Exception):
    """The transaction can only be aborted."""


class _Writer:
    """A producer with the state's transactional id. One call at a time.

    `unended`: a commit or an abort whose outcome is unknown.
    """

    def __init__(self, cluster: Cluster, host: Host) -> None:
        self._cluster = cluster
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._id, self._epoch, self._sequence = -1, -1, 0
        self._fatal = ""
        self._records: list[Sent] = []
        self._added = False
        self._last_offset = -1
        self.unended: Callable[[float], Awaitable[int]] | None = None

    async def init(self) -> None:
        """Get an identity; fences whoever had the id before. Raises StoreError, ProducerFenced."""
        try:
            await self._init(self._loop.time() + _OPEN_S)
        except TimeoutError:
            raise StoreError("the state topic on the target could not be taken over: no answer in time") from None
        except _Abortable as exc:
            raise StoreError(f"the state topic on the target could not be taken over: {exc}") from exc

    async def commit(self, changes: Sequence[Change]) -> int:
        """See `StateTopic.commit`."""
        self._require_usable()
        self._records = [
            Sent(key.encode(), value, ((MORE, b""),) if left else ())  # type: ignore[arg-type]
            for left, (key, value) in zip(reversed(range(len(changes))), changes, strict=True)
        ]
        self._added, self._last_offset = False, -1
        return await self._end(self._commit)

    async def settle(self) -> int:
        """See `StateTopic.settle`."""
        self._require_usable()
        if self.unended is None:
            return -1
        ending = self.unended
        offset = await self._end(ending)
        if ending == self._abort:
            raise StoreError("the last change of the state was not made")
        return offset

    async def _end(self, attempt: Callable[[float], Awaitable[int]]) -> int:
        self.unended = None
        try:
            return await attempt(self._loop.time() + _COMMIT_S)
        except TimeoutError:
            self.unended = attempt
            raise StoreUncertain("the target has not answered a change of the state") from None
        except _Abortable as exc:
            reason = str(exc)
        await self._end(self._abort)
        raise StoreError(f"the state was not changed: {reason}")

    async def _commit(self, deadline: float) -> int:
        if not self._added:
            await self._ask("AddPartitionsToTxn", self._add_request(), deadline, _code_of_partition, cap=3)
            self._added = True
        if self._last_offset < 0:
            await self._produce(deadline)
        await self._ask("EndTxn", self._end_request(committed=True), deadline, _code, cap=4)
        return self._last_offset

    async def _abort(self, deadline: float) -> int:
        if self._added:
            await self._ask("EndTxn", self._end_request(committed=False), deadline, _code, cap=4)
            self._added = False
        await self._init(deadline)  # what became of the batch's sequence is not known
        return -1

    # -- requests ------------------------------------------------------------------------------------------------

    async def _init(self, deadline: float) -> None:
        request = InitProducerIdRequest(
            transactional_id=TRANSACTIONAL_ID,
            transaction_timeout_ms=_TIMEOUT_MS,
            producer_id=self._id,
            producer_epoch=self._epoch,
        )
        answer = await self._ask("InitProducerId", request, deadline, _code, cap=4)
        self._id, self._epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0

    def _add_request(self) -> Any:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[topic],
        )

    def _end_request(self, *, committed: bool) -> Any:
        return EndTxnRequest(
            transactional_id=TRANSACTIONAL_ID,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=committed,
        )

    async def _ask(self, what: str, request: Any, deadline: float, code_of: Callable[[Any], int], *, cap: int) -> Any:
        """The coordinator's answer without an error. TimeoutError: not by the deadline."""

        async def once() -> tuple[int, Any]:
            try:
                node = await self._cluster.transaction_coordinator(TRANSACTIONAL_ID, _TRY_S)
                connection = await self._cluster.connection(node, "state-coordinator", _TRY_S)
                answer = await connection.request(request, cap=cap, timeout_s=_TRY_S)
            except ClusterUnavailable:
                self._cluster.invalidate_transaction_coordinator(TRANSACTIONAL_ID)
                raise
            if (code := code_of(answer)) in _MOVED:
                self._cluster.invalidate_transaction_coordinator(TRANSACTIONAL_ID)
            return code, answer

        return await self._again(what, once, deadline)

    async def _produce(self, deadline: float) -> None:
        batch = stamped_batch(
            record_body(self._records),
            len(self._records),
            self._host.wall_ms(),
            producer_id=self._id,
            epoch=self._epoch,
            sequence=self._sequence,
            transactional=True,
        )

        async def once() -> tuple[int, int]:
            try:
                connection = await _to_leader(self._cluster, "state-writer")
                version = connection.version(ApiKey.PRODUCE, _BY_NAME_PRODUCE)
                pieces = build_produce(version, TRANSACTIONAL_ID, -1, int(_TRY_S * 1000), {TOPIC: [(0, batch)]})
                body = b"".join(pieces)
                answer = await connection.exchange(connection.send, ApiKey.PRODUCE, version, body, _TRY_S)
            except ClusterUnavailable:
                self._cluster.invalidate(TOPIC)
                raise
            result = scan_produced(answer, version)[0]
            if result.error_code:
                self._cluster.invalidate(TOPIC)
            return result.error_code, result.base_offset

        base = await self._again("Produce", once, deadline)
        self._sequence += len(self._records)
        self._last_offset = base + len(self._records) - 1

    async def _again(self, what: str, once: Callable[[], Awaitable[tuple[int, _T]]], deadline: float) -> _T:
        backoff = Backoff(*_BACKOFF_S, self._cluster.rng)
        while True:
            async with asyncio.timeout_at(deadline):
                with suppress(ClusterUnavailable):
                    code, answer = await once()
                    if not code:
                        return answer
                    self._refuse_final(what, code)
                await asyncio.sleep(backoff.next())

    def _refuse_final(self, what: str, code: int) -> None:
        if code in _FENCED:
            self._fatal = "another lockgate process has taken over the state topic; this one must stop"
        elif code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            self._fatal = f"this process can no longer write the state topic: {what}: {error_name(code)}"
        elif not is_retriable(code) and code != ErrorCode.CONCURRENT_TRANSACTIONS:
            raise _Abortable(f"{what}: {error_name(code)}")
        self._require_usable()

    def _require_usable(self) -> None:
        if self._fatal:
            raise ProducerFenced(self._fatal)


async def _to_leader(cluster: Cluster, lane: str) -> Connection:
    leader = cluster.leader(TOPIC, 0)
    if leader is None:
        await cluster.refresh((TOPIC,), _TRY_S)
        leader = cluster.leader(TOPIC, 0)
    if leader is None:
        raise ClusterUnavailable(f"{TOPIC} has no leader")
    return await cluster.connection(leader, lane, _TRY_S)


def _code(answer: Any) -> int:
    return int(answer.error_code)


def _code_of_partition(answer: Any) -> int:
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
