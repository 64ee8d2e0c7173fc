"""What the store needs of the log that it is kept in; `state/topic.py` is the one on the target.

`StateReader` reads it in its order, one whole change after the other. The records of one change are written in one
transaction, but may come in several answers of the broker. All but the last of them carry the header `MORE`, so that
nobody ever sees half a change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

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


Change = tuple[str, bytes | None]
"""Key and value; None deletes."""


class StateLog(Protocol):
    """What the store needs of a state topic: `read` goes on all the time, the others are called one at a time."""

    async def open(self) -> list[Entry]:
        """Begin to read; returns all that is there."""

    async def read(self, timeout_s: float) -> list[Entry]:
        """What came since."""

    async def lead(self) -> int:
        """Fence whoever wrote before; returns the term."""

    def resign(self) -> None:
        """Write no more."""

    async def read_anew(self) -> list[Entry]:
        """All, from the beginning."""

    async def commit(self, changes: Sequence[Change], still: Callable[[], None]) -> int:
        """Write all changes, or none; returns the offset of the last. `still` has a last word."""

    async def write_again(self, changes: Sequence[Change], was: Sequence[int]) -> int:
        """As `commit`, what the topic has lost."""

    async def resolve_outcome(self) -> int:
        """End a commit of unknown outcome; its offset when it was made, -1 when there was none."""

    async def close(self) -> None:
        """Close the clients."""
