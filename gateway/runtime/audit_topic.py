"""The audit trail in a Kafka topic as well, on the target (`api.audit_topic`).

Lines are on standard output or in their file first, and always; here they are sent a moment later, in their order, to
partition 0, whose topic must be there: how long it keeps them, and who may read and write it, is its administrators'
to say. No request waits for that. While the topic cannot be written the lines wait, up to `MOST_LINES` and
`MOST_BYTES`; of more the new ones are left out of the topic, which is counted and logged. After an answer that was
lost, or a restart of a broker, a line may be there twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Final

import structlog

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError, NetError
from gateway.kafka.logs.compacted_log import produce
from gateway.telemetry.logs import AUDIT
from gateway.transport.background import Background, kept_running
from protocol.batch.keyed import keyed_batch
from protocol.errors import ErrorCode, error_name

MOST_LINES: Final = 10_000
MOST_BYTES: Final = 16_777_216
_AT_ONCE_LINES, _AT_ONCE_BYTES = 500, 262_144  # of a batch; a topic takes 1 MiB by default
_SEND_S: Final = 10.0
_AGAIN_S: Final = 1.0
_LAST_S: Final = 3.0  # to send what is there when the gateway ends
_LANE: Final = "audit"
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_log = structlog.get_logger("lockgate.audit_topic")


class AuditTopic(logging.Handler):
    """A handler of the audit trail's logger, from `start` to `stop`.

    Args:
        key: of the records: this gateway's name.
        wall_ms: milliseconds since the epoch.

    Attributes:
        lost: lines that are not in the topic, and will not be.
    """

    def __init__(self, cluster: Cluster, topic: str, key: Callable[[], str], wall_ms: Callable[[], int]) -> None:
        super().__init__(logging.INFO)
        self._cluster = cluster
        self._topic = topic
        self._key = key
        self._wall_ms = wall_ms
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._there = asyncio.Event()
        self._most = _AT_ONCE_LINES
        self._fails = ""
        self._background = Background()
        self.lost = 0

    def start(self) -> None:
        """Take lines from now on."""
        logging.getLogger(AUDIT).addHandler(self)
        self._background.spawn(kept_running(self._run, "audit topic"), "audit topic")

    async def stop(self) -> None:
        """Take no more lines, and send what is there, for `_LAST_S` at most."""
        logging.getLogger(AUDIT).removeHandler(self)
        await self._background.close()
        with suppress(NetError, TimeoutError):
            async with asyncio.timeout(_LAST_S):
                while self._lines:
                    await self._send()
        if self._lines:
            self._lose(len(self._lines), "the gateway ends")

    def emit(self, record: logging.LogRecord) -> None:
        """logging: a line of the audit trail."""
        line = record.getMessage().encode("utf-8", "replace")
        if len(self._lines) >= MOST_LINES or self._bytes + len(line) > MOST_BYTES:
            self._lose(1, "too many wait")
            return
        self._lines.append(line)
        self._bytes += len(line)
        self._there.set()

    def _lose(self, count: int, reason: str) -> None:
        before, self.lost = self.lost, self.lost + count
        if before.bit_length() != self.lost.bit_length():  # the 1st, 2nd, 4th ...: the log must not be filled by this
            _log.error("audit lines are not in the topic", topic=self._topic, reason=reason, so_far=self.lost)

    async def _run(self) -> None:
        while True:
            await self._there.wait()
            try:
                await self._send()
            except NetError as exc:
                if not self._fails:
                    _log.error("the audit topic cannot be written: lines wait", topic=self._topic, reason=str(exc))
                self._fails = str(exc)
                await asyncio.sleep(_AGAIN_S)
            else:
                if self._fails:
                    _log.info("the audit topic is written again", topic=self._topic)
                self._fails = ""

    async def _send(self) -> None:
        """The oldest lines, as one batch; they stay where they are until they are in the topic.

        Raises:
            NetError: they are not known to be there.
        """
        lines = self._batch()
        key = self._key().encode()
        batch = keyed_batch([(key, line) for line in lines], self._wall_ms())
        result = await produce(self._cluster, self._topic, batch, lane=_LANE, timeout_s=_SEND_S)
        if result.error_code in _TOO_LARGE:
            self._too_large(lines)
            return
        if result.error_code:
            raise BrokerError(result.error_code, f"{self._topic}: Produce: {error_name(result.error_code)}")
        self._most = _AT_ONCE_LINES
        self._done(lines)

    def _batch(self) -> list[bytes]:
        taken, size = [self._lines[0]], len(self._lines[0])
        for line in islice(self._lines, 1, self._most):
            size += len(line)
            if size > _AT_ONCE_BYTES:
                break
            taken.append(line)
        return taken

    def _too_large(self, lines: list[bytes]) -> None:
        """For this topic: line by line, and without the one that it does not take."""
        if len(lines) > 1:
            self._most = 1
            return
        self._done(lines)
        self._lose(1, f"a line of {len(lines[0])} bytes is too large for it")

    def _done(self, lines: list[bytes]) -> None:
        for line in lines:
            self._lines.popleft()
            self._bytes -= len(line)
        if not self._lines:
            self._there.clear()
