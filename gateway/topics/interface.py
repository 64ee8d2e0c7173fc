"""What the proxy asks about the topics of a link's source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class SourceTopics(Protocol):
    """What the proxy asks about a link's source."""

    async def exists_unmirrored(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Of `topics`, those that exist on a source and are not mirrored: name -> link name.

        Answers within 2 s; on an unreachable source every name that is not known to be absent counts as existing.
        """
