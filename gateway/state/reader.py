"""Reads the state topic in its order, one whole change after the other.

The records of one change are written in one transaction, but may come in several answers of the broker. All but the
last of them carry the header `MORE`, so that nobody ever sees half a change.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from gateway.kafka.logs.log_follower import LogFollower

WRITER_KEY = "writer"
MORE = "lockgate.more"


class Entry(NamedTuple):
    """One record as it stands in the topic. A value of None deletes the key."""

    offset: int
    key: str
    value: bytes | None


class StateReader:
    """The changes of a log that is read from its beginning."""

    def __init__(self, log: LogFollower) -> None:
        self._log = log
        self._change: list[Entry] = []

    async def read_to_end(self) -> list[Entry]:
        """All that is committed now. Raises BrokerError: the log cannot be read any more."""
        entries = await self.read(0.0)
        while not self._log.at_end:
            entries += await self.read(0.0)
        return entries

    async def read(self, wait_s: float) -> list[Entry]:
        """The whole changes that have come; waits up to `wait_s` for the first. Errors as `read_to_end`."""
        ready: list[Entry] = []
        for record in await self._log.read(wait_s):
            if record.key is None:
                continue
            self._change.append(Entry(record.offset, record.key.decode("utf-8", "replace"), record.value))
            if MORE not in dict(record.headers):
                self._whole(ready)
        if self._log.at_end:  # the last record of a change may have been compacted away
            self._whole(ready)
        return ready

    def _whole(self, ready: list[Entry]) -> None:
        ready += self._change
        self._change = []


def writer_of(value: bytes | None) -> str:
    """The instance that a writer record names; '' for none."""
    try:
        return str(json.loads(value or b"{}").get("instance", ""))
    except (ValueError, AttributeError):
        return ""
