"""Follows a topic of one partition from its beginning, as a consumer with isolation level read_committed.

One Fetch at a time, which the broker answers when there is something (long poll). What passes (a leader that has moved,
a connection that broke) costs a pause and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable, LogTruncated, ReadTooLate, RequestTimedOut
from gateway.kafka.logs.compacted_log import leader_connection
from gateway.kafka.rules.topic_configs import READ_WITHIN_S
from gateway.transport.backoff import Backoff
from protocol.apis import ApiKey
from protocol.batch.aborted import AbortedTransactions
from protocol.batch.header import crc_is_valid, iter_batches
from protocol.batch.record_reader import Record, read_records
from protocol.errors import ErrorCode, MalformedFrame, error_name, is_retriable
from protocol.fetch import FetchedPartition, FetchPartition, build_request_body, scan_response

_log = logging.getLogger(__name__)

_LANE: Final = "log follower"
_BY_NAME: Final = 12  # the last Fetch version that names topics
_FETCH_BYTES: Final = 1024 * 1024  # a batch comes whole, however large
_ANSWER_S: Final = 10.0  # with the time that the broker may wait: what is silent so long is asked again


class LogFollower:
    """Calls must not overlap. One that is cancelled has read nothing.

    Attributes:
        position: everything before it was read.
        at_end: everything was read that was committed when the last answer was made.
    """

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.position = 0
        self.at_end = False
        self._epoch = -1  # the leader epoch of the batch before `position`
        self._read_at = cluster.host.boot()  # when the Fetch was sent that was answered last
        self._cluster = cluster
        self._topic = topic
        self._backoff = Backoff(*cluster.config.retry_backoff_s, cluster.rng)

    @property
    def is_late(self) -> bool:
        """The next `read` raises ReadTooLate."""
        return self.position > 0 and self._silent_s() > READ_WITHIN_S

    def _silent_s(self) -> float:
        return self._cluster.host.boot() - self._read_at

    async def read(self, wait_s: float) -> list[Record]:
        """The next committed records; waits up to `wait_s` (5 at most) for the first. Empty also when something passing
        went wrong.

        Raises:
            LogTruncated: the log has lost records that were read (KIP-595), or begins behind them; `end` is where what
                was read and what is there part.
            ReadTooLate: nothing was read for more than `READ_WITHIN_S`, and something was before.
            BrokerError: the topic cannot be read any more, for example TOPIC_AUTHORIZATION_FAILED (29).
        """
        asked_at = self._cluster.host.boot()
        try:
            part = await fetch_committed(self._cluster, self._topic, self.position, wait_s, self._epoch)
            if part.diverging is not None:
                epoch, end = part.diverging
                raise LogTruncated(
                    f"{self._topic}: leader epoch {epoch} ends at offset {end} there, but records up to "
                    f"{self.position} of epoch {self._epoch} were read before",
                    max(0, min(end, self.position)),
                )
            if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self.position:
                raise LogTruncated(f"{self._topic}: offset {self.position} is not there any more", 0)
            if part.error_code and not is_retriable(part.error_code):
                raise BrokerError(part.error_code, f"{self._topic}: {error_name(part.error_code)}")
            if not part.error_code:
                # A process that was stopped is so between any two lines: the time counts up to here.
                if self.is_late:
                    raise ReadTooLate(
                        f"{self._topic}: nothing was read for {self._silent_s():.0f} s ({READ_WITHIN_S:.0f} s are "
                        "allowed): what was deleted meanwhile may not be told any more"
                    )
                records = self._take(part)
                self._read_at = asked_at
                self._backoff.reset()
                return records
        except ClusterUnavailable as exc:
            _log.debug("%s is not read: %s", self._topic, exc)
        except MalformedFrame as exc:
            _log.warning("%s is not read: %s", self._topic, exc)
        self._cluster.invalidate(self._topic)
        await asyncio.sleep(self._backoff.next())
        return []

    def _take(self, part: FetchedPartition) -> list[Record]:
        records: list[Record] = []
        position = self.position
        aborted = AbortedTransactions(part.aborted)
        for header, batch in iter_batches(part.records):
            gone = aborted.is_aborted(header)
            if header.last_offset < self.position:  # a broker may begin with a batch below the position
                continue
            if not crc_is_valid(batch, header):
                raise MalformedFrame(f"the batch at offset {header.base_offset} fails its checksum")
            if not gone and not header.is_control:
                records += (each for each in read_records(header, batch) if each.offset >= self.position)
            position = header.next_offset
            self._epoch = header.partition_leader_epoch
        self.position = position
        self.at_end = position >= part.last_stable_offset
        return records


async def fetch_committed(
    cluster: Cluster, topic: str, offset: int, wait_s: float, last_epoch: int = -1
) -> FetchedPartition:
    """One Fetch of partition 0 up to the last stable offset; the broker may wait `wait_s` (5 at most) for something to
    send.

    Args:
        last_epoch: the leader epoch of the batch that was read before `offset`, by which the broker tells a log that
            was truncated (v12 and above); -1 for none.

    Raises:
        ClusterUnavailable: no answer.
    """
    connection = await leader_connection(cluster, topic, _LANE, _ANSWER_S)
    version = connection.version(ApiKey.FETCH, _BY_NAME)
    wanted = FetchPartition(0, offset, _FETCH_BYTES, leader_epoch=cluster.leader_epoch(topic, 0), last_epoch=last_epoch)
    body = build_request_body(
        version,
        {topic: [wanted]},
        max_wait_ms=int(wait_s * 1000),
        max_bytes=_FETCH_BYTES,
        read_committed=True,
    )
    try:
        answer = await connection.exchange(connection.send, ApiKey.FETCH, version, body, _ANSWER_S)
    except RequestTimedOut:
        cluster.drop((_LANE,), "a Fetch was not answered")
        raise
    response = scan_response(answer, version)
    if response.error_code or not response.parts:
        raise ClusterUnavailable(f"Fetch: {error_name(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR)}")
    return response.parts[0]
