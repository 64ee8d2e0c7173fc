"""The input of a failover's decisions: answers of gateways, source and copy, and the record. Values only.

Unknown values are None, never a number that could pass for an answer. `cutover/failover/rules/failover.py` decides,
`cutover/failover/rules/memory.py` keeps what one run has learnt.
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
    """How long a failover waits for each step, in seconds: it must end even if something does not answer.

    `warm_s`: for the producers' last batches, before the pause, and only while the source answers. `pause_s`: for every
    gateway to pause its writes. `drain_s`: for answers to writes in flight to the source, and then for every gateway to
    confirm that it passes no answer on any more. `stop_s`: for the mirror's appends to be answered. `copy_s`: for the
    copy and its offset map to be read, and for all its replicas to have all of it. `store_s`: for other changes of the
    record to end.
    """

    warm_s: float = 3.0
    pause_s: float = 5.0
    drain_s: float = 2.0
    stop_s: float = 15.0
    copy_s: float = 5.0
    store_s: float = 5.0


class SourceReading(NamedTuple):
    """Where the source's logs end. `ends[p]`: its present answer, else the end last seen; None if never seen.

    `answered`: the source has answered now.
    """

    ends: tuple[int | None, ...]
    answered: bool


class CopyEnd(NamedTuple):
    """One partition of the copy: the source offset up to which it has everything, and its log end (high watermark).

    `above`: how many offsets its leader's log has above that. Whether they stay is unknown.
    """

    mirrored_to: int
    copy_end: int
    above: int = 0


class KnownBatch(NamedTuple):
    """A batch that the mirror has fetched, on the copy or not. `following`: the source offset after it."""

    entry: ProducerEntry
    following: int


class KnownBatches(Sequence[KnownBatch]):
    """The known batches of one partition; the object of a batch exists only while it is used."""

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
    """`tables`: per partition the known last batches of producers; `missing`: partitions whose table may lack some."""

    tables: tuple[Sequence[KnownBatch], ...]
    missing: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverSnapshot:
    """One topic as it is now. Times are monotonic seconds; None: not begun.

    `phase`: of the route in force here. `gateways`: those that may write to the source; `paused`: those that confirmed
    that their writes pause; `drained`: those that confirmed that no answer of the source reaches a client any more,
    because no write is in flight, or its answer is dropped. `on_target`: the topic was written on the target when the
    run began (it ends a failback). `source` was read before the pause, `last` under it. `cold`: partitions with
    incomplete producers, waited for since `warming_since`. `paused_since`: when this gateway paused its writes.
    `producers`: the mirror's, right before it was `stopped`. `copy`: read after that, None for a partition without an
    answer; read since `reading_since`, `copy_error` says why it failed. `storing_since`: when the cutover was first
    tried. `committing`: it was tried, and its outcome is unknown. `earliest_stop`: by then the appends in flight of a
    gateway that left have landed. `gave_up`: why the run was given up. `taken_back`: writes and mirror are as before.
    `released`: the pause has ended after the cutover. `restored`, `told`: these steps after the cutover were tried.
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
    """The next step. WAIT and DONE do nothing."""

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
