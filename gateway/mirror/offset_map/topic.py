"""The offset maps of a link: a compacted topic on the target, read whole when first needed, appended to before data.

`__lockgate_map.LINK` has one partition, so that its records have one order; the first breakpoint creates it.
`mirror/offset_map/rules/codec.py` has the format of its records, `mirror/offset_map/rules/ledger.py` their meaning. If
the topic has lost its end, the process that wrote the lost records writes them again
(`mirror/offset_map/rules/written_ahead.py`); it checks whenever the topic has another leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from gateway.kafka.cluster import BrokerError, Cluster, NetError
from gateway.kafka.connection.errors import LogTruncated
from gateway.kafka.logs.compacted_log import CompactedLog
from gateway.kafka.rules.topic_configs import INTERNAL
from gateway.mirror.offset_map.rules.codec import (
    Chunk,
    MapFormatError,
    PartitionKey,
    ReadTo,
    Value,
    decode_key,
    decode_value,
)
from gateway.mirror.offset_map.rules.ledger import Change, OffsetLedger
from gateway.mirror.offset_map.rules.offset_map import Breakpoint
from gateway.mirror.offset_map.rules.written_ahead import WrittenAhead
from gateway.mirror.partition.log_start import batch_at
from gateway.transport.backoff import Backoff
from gateway.transport.host import Host
from gateway.transport.tasks import Tasks
from protocol.batch.header import BatchHeader
from protocol.errors import ErrorCode, ProtocolError

_log = logging.getLogger(__name__)

PREFIX: Final = "__lockgate_map."
CONFIGS: Final = {
    **INTERNAL,
    "compression.type": "zstd",
    "max.message.bytes": str(64 * 1024 * 1024),  # the breakpoints of one large batch full of gaps
}
LANE: Final = "offset map"
_ANSWER_S: Final = 15.0
_READ_S: Final = 15.0
_MOST_LOSSES: Final = 5
_LOOK_S: Final = 5.0
"""How often to check whether the topic has another leader."""
_BATCH_BYTES: Final = 512 * 1024


def map_topic(link: str) -> str:
    """The name of a link's map topic."""
    return PREFIX + link


class _Wanted(NamedTuple):
    """Changes to make durable. `done` is called then, `error` after each failed attempt."""

    changes: Sequence[Change]
    done: Callable[[], None]
    error: Callable[[str], None]


class LinkMaps:
    """Args: the target, the link's name, and the tasks in which requests run until they are closed."""

    def __init__(self, target: Cluster, link: str, tasks: Tasks) -> None:
        self.topic = map_topic(link)
        self._target = target
        self._tasks = tasks
        self._lock = asyncio.Lock()
        self._log = CompactedLog(target, self.topic, configs=CONFIGS, lane=LANE)
        self._absent_since = -1.0  # when the last check began that found no topic
        self._was_read = False
        self._unclaimed: dict[PartitionKey, list[tuple[int, int, int, Value | None]]] = {}
        self._ledgers: dict[PartitionKey, OffsetLedger] = {}
        self._wanted: list[_Wanted] = []
        self._writing = False
        self._written = WrittenAhead()
        self._went_back = False
        self._read_in = -1  # the leader epoch in which the topic was last read to its end
        self._is_watched = False

    def ledger(self, of: PartitionKey, implied: Breakpoint) -> OffsetLedger:
        """The partition's ledger, the same object at each call; it has all records read so far."""
        ledger = self._ledgers.get(of)
        if ledger is None:
            ledger = self._ledgers[of] = OffsetLedger(of, implied, partial(_new_writer, self._target.host))
            for record in self._unclaimed.pop(of, ()):
                ledger.read(*record)
            if self._was_read:
                ledger.absorb(self._log.position)
        return ledger

    def is_used(self, of: PartitionKey) -> bool:
        """The records read so far say something about the partition, so its offsets are translated. Creates no ledger
        for a partition that has none."""
        ledger = self._ledgers.get(of)
        if ledger is not None:
            return ledger.used
        return any(isinstance(value, Chunk | ReadTo) for *_, value in self._unclaimed.get(of, ()))

    # -- reading ---------------------------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Read the topic up to its present end. Does nothing if the topic certainly does not exist.

        Raises:
            NetError, ProtocolError: try again.
            MapFormatError: a newer lockgate wrote the topic.
        """
        begun = self._target.host.monotonic()
        async with self._lock:
            # Many partitions begin at once: a check that began after this call did is as good an answer.
            if self._absent_since >= begun or not await self._is_there():
                return
            read_in, self._went_back = self._target.leader_epoch(self.topic, 0), False
            for _ in range(_MOST_LOSSES):
                if await self._is_read():
                    break
            else:  # brokers report different logs: the caller tries again a little later
                raise NetError(f"offset map {self.topic} has lost records {_MOST_LOSSES} times while it was read")
            self._was_read, self._read_in = True, read_in
            for ledger in self._ledgers.values():
                ledger.absorb(self._log.position)

    async def _is_read(self) -> bool:
        """Read up to the present end. False: the topic has lost records, and must be read again from there on."""
        expected = self._written.from_offset(self._log.position)
        read: set[bytes] = set()
        try:
            async for records in self._log.news(_READ_S):
                for record in records:
                    self._hand_over(record.offset, record.key or b"", record.value)
                if expected:
                    read.update(record.key or b"" for record in records)
                await asyncio.sleep(0)  # decoding takes time; give other tasks their turn
        except LogTruncated as exc:
            # The ledgers here keep their contents. A gateway that takes a partition over reads less than was written,
            # until the process that wrote it has noticed.
            _log.error("offset map %s: %s; each gateway writes again what it wrote of it", self.topic, exc)
            return False
        if not (lost := self._written.lost(expected, read)):
            return True
        _log.error(
            "offset map %s has lost %d record(s) that this gateway wrote, and gets them again; offsets that another "
            "gateway translated for link %s meanwhile may be too high: audit the link's topics",
            self.topic,
            len(lost),
            self.topic.removeprefix(PREFIX),
        )
        await self._append(lost)
        return False

    async def _is_there(self) -> bool:
        """False when the topic certainly does not exist. A broker that does not know it proves nothing: then equal
        offsets would pass for the map of a topic that has one, and its records would be appended again.

        Raises:
            NetError: unknown for now; try again.
        """
        asked = self._target.host.monotonic()
        found = await self._log.exists(_READ_S)
        if not found:
            self._absent_since = asked
        return found

    def _hand_over(self, offset: int, key_bytes: bytes, value: bytes | None) -> None:
        key = decode_key(key_bytes)
        found = offset, key.base, key.writer, None if value is None else decode_value(key, value)
        ledger = self._ledgers.get(key.of)
        if ledger is None:
            self._unclaimed.setdefault(key.of, []).append(found)
        else:
            ledger.read(*found)

    # -- deciding --------------------------------------------------------------------------------------------

    async def decide(self, ledger: OffsetLedger, copy: Cluster, topic: str, partition: int, log_end: int) -> None:
        """Decide in the ledger every breakpoint below the copy's log end, which was read just before.

        Raises:
            NetError, ProtocolError, MapFormatError: as `catch_up`.
        """
        await self.catch_up()
        open_ones = ledger.undecided(log_end)
        headers = await asyncio.gather(*(_header_at(copy, topic, partition, each.base) for each in open_ones))
        lost = [each for each, header in zip(open_ones, headers, strict=True) if not each.is_in(header)]
        changes = ledger.decide_below(log_end, lost)
        if changes:
            self.append(changes, lambda: None, lambda message: _log.info("offset map %s: %s", self.topic, message))

    async def cut(self, ledger: OffsetLedger, log_end: int) -> None:
        """Write to the topic that the copy has lost its records beyond `log_end`. Durable when this returns.

        Raises:
            NetError, ProtocolError, MapFormatError: as `catch_up`; nothing was written.
        """
        await self.catch_up()
        change, durable = ledger.cut(log_end), asyncio.Event()
        if ledger.used:  # otherwise the topic has no record of this partition
            self.append((change,), durable.set, lambda message: _log.info("offset map %s: %s", self.topic, message))
            await durable.wait()

    # -- writing ---------------------------------------------------------------------------------------------

    def append(self, changes: Sequence[Change], done: Callable[[], None], error: Callable[[str], None]) -> None:
        """Write records. Calls `done` once all are durable; until then retries for ever and calls `error` each time."""
        self._wanted.append(_Wanted(changes, done, error))
        if not self._writing:
            self._writing = self._tasks.spawn(self._write(), f"offset map {self.topic}") is not None
        if not self._is_watched:
            self._is_watched = self._tasks.spawn(self._watch(), f"leader of offset map {self.topic}") is not None

    async def _write(self) -> None:
        backoff = Backoff(*self._target.config.retry_backoff_s, self._target.rng)
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, []
                while (problem := await self._try(wanted)) is not None:
                    _log.warning("offset map %s: %s", self.topic, problem)
                    for one in wanted:
                        one.error(f"the offset map is not written: {problem}")
                    self._target.invalidate(self.topic)
                    await asyncio.sleep(backoff.next())
                backoff.reset()
                for one in wanted:
                    one.done()
        finally:
            self._writing = False

    async def _try(self, wanted: Sequence[_Wanted]) -> str | None:
        """Write all changes. Returns None, or why some may not be there. Writing one twice changes nothing."""
        try:
            await self._log.ensure(_READ_S)
            await self._append([change for one in wanted for change in one.changes])
            if self._may_lack_some():
                await self.catch_up()
        except (NetError, ProtocolError, TimeoutError, OSError, MapFormatError) as exc:
            return str(exc) or type(exc).__name__
        return None

    async def _append(self, wanted: Sequence[Change]) -> None:
        for changes in _batches(wanted):
            base = await self._log.append(changes, _ANSWER_S)
            self._went_back |= self._written.wrote(changes, base)

    def _may_lack_some(self) -> bool:
        """Records of this process may be lost: the log went back, or another broker leads it now."""
        led_in = self._target.leader_epoch(self.topic, 0)
        return bool(self._written) and (self._went_back or led_in != self._read_in)

    async def _watch(self) -> None:
        """Detect lost records also while there is nothing to write."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._may_lack_some():
                try:
                    await self.catch_up()
                except (NetError, ProtocolError, TimeoutError, OSError, MapFormatError) as exc:
                    _log.warning("offset map %s: %s", self.topic, exc)


async def _header_at(copy: Cluster, topic: str, partition: int, offset: int) -> BatchHeader | None:
    """The header of the batch that holds an offset, or of the next one; None at the log end or below its start."""
    try:
        return await batch_at(copy, topic, partition, offset, timeout_s=_READ_S)
    except BrokerError as exc:
        if exc.code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        return None


def _batches(changes: Sequence[Change]) -> list[Sequence[Change]]:
    """Batches of about `_BATCH_BYTES` each; one call's changes may be spread over several."""
    found: list[Sequence[Change]] = []
    begin = size = 0
    for index, (key, value) in enumerate(changes):
        if size > _BATCH_BYTES:
            found.append(changes[begin:index])
            begin, size = index, 0
        size += len(key) + len(value or b"")
    if begin < len(changes):
        found.append(changes[begin:])
    return found


def _new_writer(host: Host) -> int:
    return int(host.token_hex(8), 16) or 1


__all__ = ["LinkMaps", "MapFormatError", "map_topic"]
