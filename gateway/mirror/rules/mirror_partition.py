"""The name of one mirrored partition, whoever copies it."""

from __future__ import annotations

from typing import NamedTuple


class MirrorPartition(NamedTuple):
    """One partition to be mirrored."""

    link: str
    topic: str
    partition: int
