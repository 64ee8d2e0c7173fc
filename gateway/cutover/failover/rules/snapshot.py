"""What a failover is decided on: answers of the gateways, of the source and of the copy, and the record. Values only.

What is not known is None, and never a number that could be taken for one. `cutover/failover/rules/failover.py` decides,
`cutover/failover/rules/memory.py` remembers what one run has learnt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias, overload

from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.state.producer_entries import PackedProducers
from gateway.state.records import MirrorRecord, ProducerEntry
from gateway.state.step import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverLimits:
    """How long a failover waits for each thing, in seconds: it must come to an end whatever does not answer.

    `warm_s`: for the producers' last batches, before the pause, and only while the source answers. `pause_s`: for
    every gateway to pause its writes. `drain_s`: for what is in flight to the source to be answered, and then for every
    gateway to say that it passes no answer on any more. `stop_s`: for the
    mirror's appends to be answered. `copy_s`: for the copy, and its offset map, to be read, and for all of it to be on
    all of its replicas. `store_s`: for other changes of the record to come to an end.
    """

    warm_s: float = 3.0
    pause_s: float = 5.0
    drain_s: float = 2.0
    stop_s: float = 15.0
    copy_s: float = 5.0
    store_s: float = 5.0


class SourceReading(NamedTuple):
    """Where the source's logs end. `ends[p]`: as it says now, else as it was last seen; None where nobody has seen it.

    `answered`: it was the source that said so, just now.
    """

    ends: tuple[int | None, ...]
    answered: bool


class CopyEnd(NamedTuple):
    """One partition of the copy: the offset of the source up to which it has everything, and where its log ends (its
    high watermark).

    `above`: how many offsets of its leader's log lie above that. Whether they stay is not known.
    """

    mirrored_to: int
    copy_end: int
    above: int = 0


class KnownBatch(NamedTuple):
    """A batch that the mirror has fetched, on the copy or not. `following`: the source's offset behind it."""

    entry: ProducerEntry
    following: int


class KnownBatches(Sequence[KnownBatch]):
    """Those of one partition, however many: there is an object for one only while it is looked at."""

    def __init__(self, batches: Sequence[ProducerEntry], following: Sequence[int]) -> None:
        self.batches = PackedProducers.of(batches)
        self.following = following

    def __len__(self) -> int:
        return self.batches.at_most or len(self.batches)

    def __iter__(self) -> Iterator[KnownBatch]:
        return map(KnownBatch, self.batches, self.following)

    @overload
    def __getitem__(self, at: int) -> KnownBatch: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[KnownBatch]: ...
    def __getitem__(self, at: int | slice) -> KnownBatch | Sequence[KnownBatch]:
        return tuple(self)[at]


class KnownProducers(NamedTuple):
    """`tables`: per partition the last batches of producers that are known; `missing`: where that may not be all."""

    tables: tuple[Sequence[KnownBatch], ...]
    missing: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverSnapshot:
    """One topic as it is now. Times are monotonic seconds; those that are None: it was not begun.

    `phase`: the route in force here. `gateways`: those that may write to the source, and `paused` those of them that
    said that their writes pause; `drained`: those that said that no answer of the source reaches a client any more,
    since nothing is in flight, or they do not wait for it. `on_target`: the
    topic was written on the target when the run began (a failback is to be ended). `source` was read before the pause,
    `last` under it. `cold`: partitions whose producers are not all known yet, waited for since `warming_since`.
    `paused_since`: since when this gateway's writes pause. `producers`: as the mirror knew them right before it was
    `stopped`. `copy`: read after that, None for each partition without an answer; asked for since `reading_since`, with
    `copy_error` saying why not. `storing_since`: when the cutover was tried first. `committing`: it was tried, and
    whether it is stored is not known. `earliest_stop`: not before; what a gateway that has gone had in flight to the
    copy must have landed by then. `gave_up`: why. `taken_back`: writes and mirror are as before. `released`: the
    pause has ended behind the cutover. `restored`, `told`: what follows the cutover was tried.
    """

    now: float
    record: MirrorRecord
    phase: WritePhase
    gateways: frozenset[str]
    on_target: bool = False
    source: SourceReading | None = None
    last: SourceReading | None = None
    cold: tuple[int, ...] = ()
    warming_since: float | None = None
    paused_since: float | None = None
    paused: frozenset[str] = frozenset()
    drained: frozenset[str] = frozenset()
    stopped: bool = False
    producers: KnownProducers | None = None
    copy: tuple[CopyEnd | None, ...] | None = None
    reading_since: float | None = None
    copy_error: str = ""
    storing_since: float | None = None
    committing: bool = False
    earliest_stop: float = 0.0
    gave_up: str = ""
    taken_back: bool = False
    released: bool = False
    restored: bool = False
    told: bool = False


class FailoverStepKind(StrEnum):
    """What to do next. WAIT and DONE do nothing."""

    WAIT = "wait"
    READ_SOURCE = "read_source"
    PAUSE_WRITES = "pause_writes"
    DRAIN = "drain"
    READ_LAST = "read_last"
    STOP_MIRROR = "stop_mirror"
    READ_COPY = "read_copy"
    PERSIST = "persist"
    SETTLE = "settle"
    TAKE_BACK = "take_back"
    RELEASE = "release"
    RESTORE_CONFIGS = "restore_configs"
    TELL_GROUPS = "tell_groups"
    DONE = "done"


FailoverStep: TypeAlias = Step[FailoverStepKind]
