"""Reads the state topic in its order, one whole change after the other.

The records of one change are written in one transaction, but may come in several answers of the broker. All but the
last of them carry the header `MORE`, so that nobody ever sees half a change.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from gateway.kafka.logs.log_follower import LogFollower

WRITER_KEY = "writer"
MORE = "lockgate.more"
WAS = "lockgate.was="
"""Before the offset that a record had which the topic has lost, and which is written again."""


class Entry(NamedTuple):
    """One record as it stands in the topic. A value of None deletes the key. `was`: the offset that it had before the
    topic lost it, of one that was written again; -1 of any other one."""

    offset: int
    key: str
    value: bytes | None
    was: int = -1


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
            headers = dict(record.headers)
            key, was = record.key.decode("utf-8", "replace"), _was(headers)
            self._change.append(Entry(record.offset, key, record.value, was))
            if MORE not in headers:
                self._whole(ready)
        if self._log.at_end:  # the last record of a change may have been compacted away
            self._whole(ready)
        return ready

    def _whole(self, ready: list[Entry]) -> None:
        ready += self._change
        self._change = []


def _was(headers: Iterable[str]) -> int:
    found = next((name for name in headers if name.startswith(WAS)), WAS)
    text = found.removeprefix(WAS)
    return int(text) if text.isascii() and text.isdigit() else -1


def writer_of(value: bytes | None) -> str:
    """The instance that a writer record names; '' for none."""
    try:
        return str(json.loads(value or b"{}").get("instance", ""))
    except (ValueError, AttributeError):
        return ""
