"""What the store needs of the log that it is kept in; `state/topic.py` is the one on the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from gateway.state.reader import Entry

Change = tuple[str, bytes | None]
"""Key and value; None deletes."""


class Log(Protocol):
    """What the store needs of a state topic: `read` goes on all the time, the others are called one at a time."""

    async def open(self) -> list[Entry]:
        """See `StateTopic.open`; so for the others."""

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
