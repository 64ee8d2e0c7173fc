"""The identities of transactional producers, in a compacted topic on the target that every gateway reads and writes.

A gateway looks for news only when it meets an identity that it does not know: at the first request of a producer that
another gateway, or this one before a restart, has initialised. See `proxy/rules/transactional_ids.py` for what is kept.

A record whose transactional id the target has forgotten gets a tombstone (`identity_expiry.py`). Its writer may not
have seen that the producer came back through another gateway meanwhile. So a tombstone counts against a record from
`EXPIRES_MS` before it and more; behind a younger one it is a mistake, which whoever reads it overlooks, and whoever
wrote it mends.

A log that has lost records that were acknowledged says so to whoever reads on (`kafka/logs/compacted_log.py`). What a
gateway has read stays in force with it, and it writes those of the lost records again that nobody has written since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import structlog

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import ClusterUnavailable, LogTruncated, NetError
from gateway.kafka.logs.compacted_log import CompactedLog
from gateway.proxy.rules.transactional_ids import ProducerRecord, decode, encode, merged
from gateway.proxy.transactions.coordinators import Refused
from protocol.errors import ErrorCode

TOPIC = "__lockgate_producers"
EXPIRES_MS = 7 * 24 * 3_600_000
"""Of a record that nobody has written again; transactional.id.expiration.ms has the same default."""
_LANE = "identities"
_TIMEOUT_S = 8.0
_WRITES = 3
_TOGETHER = 500  # records in one batch

_log = structlog.get_logger("lockgate.proxy")


class Identities:
    """Records by transactional id, as of the last look at the topic."""

    def __init__(self, target: Cluster, topic: str = TOPIC) -> None:
        self._log = CompactedLog(target, topic, lane=_LANE)
        self._records: dict[str, ProducerRecord] = {}
        self._written: dict[str, int] = {}  # the timestamp of each, in milliseconds
        self._at: dict[str, int] = {}  # the offset of each in the topic
        self._lost: set[str] = set()  # those that the topic has lost, and that are to be written again
        self._mistaken: set[str] = set()  # those behind which a tombstone is that does not count
        self._lock = asyncio.Lock()

    async def current(self, transactional_id: str) -> ProducerRecord | None:
        """The record in force now, whoever wrote it.

        Raises:
            ClusterUnavailable, BrokerError: the topic could not be read.
        """
        async with self._lock:
            await self._read()
        return self._records.get(transactional_id)

    async def all(self) -> list[ProducerRecord]:
        """Every record in force now. Raises as `current`."""
        async with self._lock:
            await self._read()
        return list(self._records.values())

    async def keep(self, record: ProducerRecord) -> ProducerRecord:
        """Make a record last. Returns the one in force then: merged with what other gateways have written meanwhile.

        Raises:
            ClusterUnavailable: not known to be written.
            BrokerError: refused.
        """
        name = record.transactional_id
        async with self._lock:
            await self._read()
            for _ in range(_WRITES):
                whole = merged(self._records.get(name), record)
                await self._log.put([(name.encode(), encode(whole))], _TIMEOUT_S)
                # Compaction keeps the last value only, so the last one must be the whole one.
                if await self._read(last_of=name) == whole:
                    return whole
        raise ClusterUnavailable(f"the identity of transactional id {name!r} is being written by several gateways")

    async def _read(self, last_of: str = "") -> ProducerRecord | None:
        """Take up what is new. Returns the last record read of a transactional id, before it is merged."""
        last = await self._read_on(last_of)
        while self._lost:
            names = list(islice(self._lost, _TOGETHER))
            lost = [(name.encode(), encode(self._records[name])) for name in names if name in self._records]
            if lost:
                await self._log.put(lost, _TIMEOUT_S)
            self._lost.difference_update(names)
            last = await self._read_on(last_of) or last
        return last

    async def _read_on(self, last_of: str) -> ProducerRecord | None:
        while True:
            try:
                return await self._read_news(last_of)
            except LogTruncated as exc:
                self._lost |= {name for name, at in self._at.items() if at >= exc.end}
                _log.error("identities of producers were lost on the target", reason=str(exc), records=len(self._lost))

    async def _read_news(self, last_of: str) -> ProducerRecord | None:
        last = None
        async for records in self._log.news(_TIMEOUT_S):
            for each in records:
                name = (each.key or b"").decode("utf-8", "replace")
                self._lost.discard(name)
                self._at[name] = each.offset
                record = self._take(name, each.value, each.timestamp_ms)
                if name == last_of and record is not None:
                    last = record
        return last

    async def old(self, now_ms: int) -> list[str]:
        """Transactional ids whose records nobody has written for `EXPIRES_MS`. Raises as `current`."""
        async with self._lock:
            await self._read()
        return [name for name, at in self._written.items() if at < now_ms - EXPIRES_MS]

    async def forget(self, name: str, now_ms: int) -> bool:
        """Drop a record that is old, for all gateways and for good. False: it is not, any more.

        Raises:
            ClusterUnavailable: not known to be written.
            BrokerError: refused.
        """
        async with self._lock:
            await self._read()
            if self._written.get(name, now_ms) >= now_ms - EXPIRES_MS:
                return False
            await self._log.put([(name.encode(), None)], _TIMEOUT_S)
            await self._read()
            mistaken = self._records.get(name) if name in self._mistaken else None
        if mistaken is None:
            return True
        await self.keep(mistaken)
        return False

    def _take(self, name: str, value: bytes | None, at_ms: int) -> ProducerRecord | None:
        if value is None:
            if self._written.get(name, at_ms - EXPIRES_MS) <= at_ms - EXPIRES_MS:
                self._records.pop(name, None)
                self._at.pop(name, None)
                self._written.pop(name, None)
            else:
                self._mistaken.add(name)
            return None
        try:
            record = decode(name, value)
        except ValueError as exc:
            _log.error("a producer's record cannot be read and is left out", reason=str(exc))
            return None
        self._records[name] = merged(self._records.get(name), record)
        self._written[name] = at_ms
        self._mistaken.discard(name)
        return record


@contextmanager
def answered() -> Iterator[None]:
    """What goes wrong with the kept identities is answered as a coordinator that is not there yet."""
    try:
        yield
    except NetError as exc:
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(exc)) from exc
