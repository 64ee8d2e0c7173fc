"""Which topics of a cluster are mirror topics there: what the gateways before that cluster say in their state topic.

A cluster that is the source of a link may itself be the target of other gateways, as in a chain. Their state is read as
any record is, from where the last look ended: what lies still costs one Fetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

import structlog

from gateway.kafka.cluster import Cluster
from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from gateway.kafka.log_follower import LogFollower
from gateway.state.codec import StateFormatError, decode
from gateway.state.reader import Entry, StateReader
from gateway.state.records import MirrorRecord, MirrorState
from gateway.state.topic import TOPIC
from protocol.errors import ErrorCode, error_name

_READ_S: Final = 15.0
_FORBIDDEN: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED)
_log = structlog.get_logger("lockgate.control")


class MirrorsThere:
    """Of one cluster. Calls at the same time share their reading."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = asyncio.Lock()
        self._topic_id = b""
        self._reader: StateReader | None = None
        self._names: dict[str, str] = {}  # key of the state -> mirror topic

    async def names(self) -> frozenset[str] | None:
        """See `ClusterAccess.mirror_topics`.

        Raises:
            ClusterUnavailable: no answer in time.
        """
        async with self._lock:
            try:
                async with asyncio.timeout(_READ_S):
                    return await self._read()
            except TimeoutError:
                self._reader = None  # a change may have been read by half
                raise ClusterUnavailable(f"{TOPIC} was not read to its end in {_READ_S:g} s") from None

    async def _read(self) -> frozenset[str] | None:
        found = (await self._cluster.refresh((TOPIC,))).topics.get(TOPIC)
        if found is None:
            return frozenset()
        if found.error in _FORBIDDEN:
            return None
        if found.error:
            raise ClusterUnavailable(f"{TOPIC}: {error_name(found.error)}")
        if self._reader is None or found.topic_id != self._topic_id:
            self._reader, self._topic_id, self._names = (
                StateReader(LogFollower(self._cluster, TOPIC)),
                found.topic_id,
                {},
            )
        try:
            self._take(await self._reader.read_to_end())
        except (BrokerError, StateFormatError) as exc:
            self._reader = None
            _log.warning("the mirror topics on a source are not known", reason=str(exc))
            return None
        return frozenset(self._names.values())

    def _take(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            record = None if entry.value is None else decode(entry.key, entry.value)
            if isinstance(record, MirrorRecord) and _is_mirror_topic(record):
                self._names[entry.key] = record.mirror_topic
            else:
                self._names.pop(entry.key, None)


def _is_mirror_topic(record: MirrorRecord) -> bool:
    """It is written by a mirror there, not by clients."""
    return not record.is_reverse and record.state is not MirrorState.STOPPED
