"""How much is done in a run. A profile is a plain value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, NamedTuple


class Cell(NamedTuple):
    """One kind of backlog: records in a batch, bytes of a record's value, partitions, codec (0 none, 3 lz4, 4 zstd)."""

    batch: int
    size: int
    partitions: int
    codec: int = 0

    @property
    def name(self) -> str:
        """For tables and topics: `1x100-p6-lz4`."""
        codec = {0: "", 3: "-lz4", 4: "-zstd"}[self.codec]
        return f"{self.batch}x{self.size}-p{self.partitions}{codec}"


TINY_1: Final = Cell(1, 100, 1)
TINY_6: Final = Cell(1, 100, 6)
K16_1: Final = Cell(16, 1_000, 1)
TOLD: Final = (TINY_1, TINY_6, K16_1)
"""What the last line is made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is done.

    Args:
        grid: the backlogs.
        rounds: of the backlogs that the last line is made of (the others have one), and of the loads `far`, `workers`.
        tiny_records: of a backlog of batches below 4 KB; others have `mb` megabytes.
        mm2_tuned: whether a tuned MirrorMaker 2 takes part.
        tail_s, tail_rate: seconds and batches per second of the steady stream.
        far_ms, far_mb: how far the source is away, round trip; and the megabytes of a backlog there: the first answers
            of a far source take half a second, which is to be a small part.
        replicas_ms: how far the target's brokers are from each other, round trip.
        many: partitions of a link.
        rest_s: seconds at rest.
        settle_s: seconds before, in which figures settle.
        flood: small requests through a gateway, at full speed.
    """

    name: str
    grid: tuple[Cell, ...]
    rounds: int
    tiny_records: int
    mb: int
    mm2_tuned: bool
    tail_s: float
    tail_rate: int = 1_000
    far_ms: tuple[int, ...] = (50, 100)
    far_mb: int
    replicas_ms: int = 2
    many: tuple[int, ...]
    rest_s: float
    settle_s: float
    flood: int


FULL: Final = Sizes(
    name="full",
    grid=tuple(
        Cell(batch, size, partitions, codec)
        for batch, size in ((1, 100), (10, 100), (16, 1_000), (1_000, 1_000))
        for partitions in (1, 6)
        for codec in (0, 3, 4)
    ),
    rounds=3,
    tiny_records=200_000,
    mb=100,
    mm2_tuned=True,
    tail_s=30.0,
    far_mb=400,
    many=(1_000, 4_000, 10_000),
    rest_s=20.0,
    settle_s=70.0,
    flood=400_000,
)

QUICK: Final = replace(
    FULL,
    name="quick",
    grid=TOLD,
    rounds=1,
    tiny_records=100_000,
    mb=80,
    mm2_tuned=False,
    tail_s=10.0,
    far_ms=(100,),
    far_mb=240,
    many=(1_000, 4_000),
    rest_s=10.0,
    flood=200_000,
)

SMOKE: Final = replace(
    QUICK,
    name="smoke",
    grid=(TINY_6, K16_1),
    tiny_records=2_000,
    mb=2,
    tail_s=2.0,
    tail_rate=200,
    far_ms=(20,),
    far_mb=2,
    many=(40,),
    rest_s=1.0,
    settle_s=1.0,
    flood=5_000,
)

PROFILES: Final = {sizes.name: sizes for sizes in (FULL, QUICK, SMOKE)}
