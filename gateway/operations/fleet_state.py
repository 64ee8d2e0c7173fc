"""The state topic of another fleet, on a cluster that is a source here: what it mirrors, and from where.

Read like our own (`state/topic.py`), but never written, and only links and mirrors are kept. The first look reads all
of it, each later one what came since. Behind that fleet's gateways the topic does not exist, and a principal without
DESCRIBE on it does not see it either: both are None. What lies still costs one Fetch.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from gateway.kafka.cluster import BrokerError, Cluster, ClusterUnavailable
from gateway.kafka.connection.errors import LogTruncated, ReadTooLate
from gateway.kafka.logs.log_follower import LogFollower
from gateway.operations.rules.topology import FleetView, is_copy
from gateway.state.codec import StateFormatError, decode
from gateway.state.log import Entry, StateReader
from gateway.state.records import LinkRecord, MirrorRecord
from gateway.state.topic import TOPIC
from protocol.errors import ErrorCode, error_name

_READ_S: Final = 15.0
_NOT_TO_BE_SEEN: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_log = structlog.get_logger("lockgate.control")


class FleetState:
    """Args: the cluster, which is started by others; how long a look may take, in seconds."""

    def __init__(self, cluster: Cluster, read_s: float = _READ_S) -> None:
        self._cluster = cluster
        self._read_s = read_s
        self._lock = asyncio.Lock()
        self._of = b""  # the topic's id: another topic of this name is read from its beginning
        self._log: LogFollower | None = None
        self._reader: StateReader | None = None
        self._links: dict[str, LinkRecord] = {}
        self._mirrors: dict[str, MirrorRecord] = {}
        self._is_forbidden = False

    async def mirror_topics(self) -> frozenset[str] | None:
        """See `ClusterAccess.mirror_topics`."""
        try:
            fleet = await self.now()
        except (BrokerError, StateFormatError) as exc:
            _log.warning("the mirror topics on a source are not known", reason=str(exc))
            return None
        if fleet is not None:
            return frozenset(topic for topic, mirror in fleet.mirrors.items() if is_copy(mirror))
        return None if self._is_forbidden else frozenset()

    async def now(self) -> FleetView | None:
        """See `ClusterAccess.fleet_state`. What is returned goes on changing with the next look."""
        async with self._lock:
            topic = (await self._cluster.refresh((TOPIC,))).topics.get(TOPIC)
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error
            if topic is None or error in _NOT_TO_BE_SEEN:
                self._cannot_see(error)
                return None
            if error or not topic.partitions:
                raise ClusterUnavailable(
                    f"{TOPIC} of the source: {error_name(error or ErrorCode.LEADER_NOT_AVAILABLE)}"
                )
            if self._log is None or self._reader is None or topic.topic_id != self._of or self._log.is_late:
                self._forget()
                self._of, self._log = topic.topic_id, LogFollower(self._cluster, TOPIC)
                self._reader = StateReader(self._log)
            try:
                async with asyncio.timeout(self._read_s):
                    await self._read(self._log, self._reader)
            except TimeoutError:
                self._forget()  # what was read of it is lost
                raise ClusterUnavailable(f"{TOPIC} of the source could not be read in {self._read_s:g} s") from None
            except StateFormatError:
                self._forget()  # else the next look would go on behind what it does not understand
                raise
            except (LogTruncated, ReadTooLate) as exc:
                self._forget()  # the next look reads all of it
                raise ClusterUnavailable(str(exc)) from exc
            except BrokerError as exc:
                if exc.code in _NOT_TO_BE_SEEN:  # seen, and not to be read
                    self._cannot_see(exc.code)
                    return None
                self._forget()
                raise
            return FleetView(self._links, self._mirrors)

    def _cannot_see(self, error: int) -> None:
        self._forget()
        self._is_forbidden = error == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def _forget(self) -> None:
        self._log = self._reader = None
        self._links, self._mirrors = {}, {}

    async def _read(self, log: LogFollower, reader: StateReader) -> None:
        log.at_end = False  # what it knew of the end is of the last look
        for entry in await reader.read_to_end():
            self._take(entry)

    def _take(self, entry: Entry) -> None:
        kind, _, name = entry.key.partition("/")
        if kind == "link":
            self._links.pop(name, None)
        elif kind == "mirror":
            link, _, topic = name.partition("/")
            if topic in self._mirrors and self._mirrors[topic].link == link:
                del self._mirrors[topic]
        else:
            return
        record = None if entry.value is None else decode(entry.key, entry.value)
        if isinstance(record, LinkRecord):
            self._links[record.name] = record
        elif isinstance(record, MirrorRecord):
            self._mirrors[record.mirror_topic] = record
