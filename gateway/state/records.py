"""The records of the state topic: what the control plane knows, as immutable values. Gateways: `gateway_records.py`.

Each record is one key of the compacted state topic on the target (`state/store.py` writes and reads
them). They hold decisions, never measurements: positions are the target's own log ends, lag is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from gateway.state.producer_entries import PackedProducers
from gateway.state.producer_entries import ProducerEntry as ProducerEntry
from gateway.state.producer_tables import ProducerTables

_T = TypeVar("_T")


class MirrorState(StrEnum):
    """States of a mirror topic, under Confluent's names."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    PENDING_SYNCHRONIZE = "PENDING_SYNCHRONIZE"
    PENDING_MIRROR = "PENDING_MIRROR"
    PENDING_SETUP_FOR_RESTORE = "PENDING_SETUP_FOR_RESTORE"
    PENDING_RESTORE_MIRROR = "PENDING_RESTORE_MIRROR"
    PENDING_STOPPED = "PENDING_STOPPED"
    STOPPED = "STOPPED"
    SOURCE_UNAVAILABLE = "SOURCE_UNAVAILABLE"
    LINK_FAILED = "LINK_FAILED"
    FAILED = "FAILED"


class MirrorMode(StrEnum):
    """How offsets relate: `preserve` = equal on both clusters; `translate` = through an offset map."""

    PRESERVE = "preserve"
    TRANSLATE = "translate"


class MirrorDirection(StrEnum):
    """Which way a topic is mirrored: FORWARD from the link's source to the target, REVERSE the other way."""

    FORWARD = "FORWARD"
    REVERSE = "REVERSE"


class MirrorError(StrEnum):
    """Why a mirror FAILED: Confluent's names where they have one, ours (the last nine) where not.

    SOURCE and TARGET are the origin and the copy: of a mirror back, the link's target and its source.
    """

    NO_ERROR = "NO_ERROR"
    SOURCE_TOPIC_MAY_BE_DELETED = "SOURCE_TOPIC_MAY_BE_DELETED"
    SOURCE_TOPIC_ID_CHANGED = "SOURCE_TOPIC_ID_CHANGED"
    SOURCE_PARTITIONS_DECREASED = "SOURCE_PARTITIONS_DECREASED"
    UNEXPECTED_TRUNCATION = "UNEXPECTED_TRUNCATION"
    UNSUPPORTED_MESSAGE_FORMAT = "UNSUPPORTED_MESSAGE_FORMAT"
    TARGET_DIVERGED = "TARGET_DIVERGED"
    TARGET_REJECTED = "TARGET_REJECTED"
    OFFSET_GAP = "OFFSET_GAP"
    SOURCE_RECORDS_DELETED = "SOURCE_RECORDS_DELETED"
    AUTHORIZATION_ERROR = "AUTHORIZATION_ERROR"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    TARGET_TOPIC_MAY_BE_DELETED = "TARGET_TOPIC_MAY_BE_DELETED"
    TARGET_TOPIC_ID_CHANGED = "TARGET_TOPIC_ID_CHANGED"
    SCHEMA_ID_UNKNOWN = "SCHEMA_ID_UNKNOWN"


class Deletion(StrEnum):
    """What is to become of a mirror topic whose `mirror delete` has begun: its record goes, the topic stays or goes."""

    NONE = ""
    RECORD = "record"
    TOPIC = "topic"


class ThenReverse(StrEnum):
    """What follows on the promote that is under way, or has just cut over: nothing, or the reverse of that name."""

    NO = ""
    START = "start"
    PAUSE = "pause"


class Undo(StrEnum):
    """Of a promote: whether its mirror back was begun by itself, to be kept for some time.

    OPEN: it was. OVER: its time has come to an end, and with it the mirror back. REFUSED: it could not be begun.
    """

    NONE = ""
    OPEN = "open"
    OVER = "over"
    REFUSED = "refused"


class GroupState(StrEnum):
    """States of a mirror group. ACTIVE = gated on the target while it reads on the source."""

    ACTIVE = "ACTIVE"
    PENDING_PROMOTED = "PENDING_PROMOTED"
    PROMOTED = "PROMOTED"
    FAILED = "FAILED"


class GroupKind(StrEnum):
    """How a group consumes. CONSUMER: by the classic protocol or KIP-848, Connect, and who only commits offsets."""

    CONSUMER = "CONSUMER"
    SHARE = "SHARE"
    STREAMS = "STREAMS"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRecord:
    """A cluster link: the source cluster and how its mirrors behave.

    `client` holds Kafka client properties for the source (`bootstrap.servers`, `security.protocol`, `sasl.mechanism`,
    `sasl.username`, `sasl.password`, `ssl.ca.location`, ...); `configs` the link's own options (see
    `state/link_config.py`). `link_id` is unique and never reused: mirror producer ids come from it. `registries`: how
    to reach the schema registries (`state/schemas/registry_properties.py`).
    """

    name: str
    link_id: int
    source_cluster_id: str
    client: Mapping[str, str]
    configs: Mapping[str, str] = field(default_factory=dict)
    created_ms: int = 0
    registries: Mapping[str, str] = field(default_factory=dict)


NOT_PADDED = -1


@dataclass(frozen=True, slots=True)
class PartitionStart:
    """Where one partition's mirror begins.

    `source_start`: first source offset a consumer may see on the target. `pad_to`: the source base offset
    of the batch that holds it (== source_start unless the log starts inside a batch); the target partition
    is padded to `pad_to`, the batch is copied whole, then DeleteRecords(`source_start`) hides the rest. `pad_to` is
    NOT_PADDED in a topic created in mode translate: its first record gets the first target offset.
    """

    source_start: int
    pad_to: int

    @property
    def is_translated(self) -> bool:
        """The offsets are not equal from the start on."""
        return self.pad_to == NOT_PADDED


@dataclass(frozen=True, slots=True)
class LostRecords:
    """What a partition's source deleted before it was mirrored: how many offsets, and up to where they are counted."""

    count: int
    up_to: int

    def and_also(self, first: int, following: int) -> LostRecords:
        """With another stretch of offsets; one that is reported twice counts once."""
        begin = max(first, self.up_to)
        return LostRecords(self.count + max(0, following - begin), max(self.up_to, following))


@dataclass(frozen=True, slots=True)
class Cutover:
    """A change of sides: per partition where the log ended on the source, and where on the target."""

    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorCutover:
    """The last move of a topic's writes to the other cluster, and the write pause under which it is made.

    `pause_epoch` numbers what paused writes. `at_ms`: when the writes last changed sides. `producers[p]`: the last
    batches of each producer, handed over so that a retry is answered, not appended again; packed, whatever is given,
    and kept in records of their own (`state/producer_tables.py`).
    `stopped_at[p]`: the origin's log end at the cutover to the target, `stopped_copy_at[p]` the copy's; empty while
    there is none. `not_mirrored[p]`: records known to be on the source only when it was failed over, -1 when unknown;
    empty without a failover. `source_answered`: the source told its log ends under the pause of that failover; else
    it may have records that nobody had seen. `retries_unknown`: partitions whose producers' last batches were not all
    known then: a retry over the failover may be appended once more. `promoted_with`: the mirror topics of the set that
    is being promoted, this one among them, and its groups (`state/promote_sets.py`); empty unless the mirror is
    PENDING_STOPPED. `unstamped`: the topic gives records its own timestamps (LogAppendTime) from this cutover on, and
    the leaders of its partitions are not known to do so yet: its writes wait at every gateway, for a bounded time
    (`topics/lifted_configs.py`). `then_reverse`: the promote is the first half of a reverse; whoever leads goes on with
    the second when the topic is STOPPED. `undo`: of the mirror back that begins by itself, `undo_until_ms`: until when
    it is kept, wall clock, as it was asked for at the cutover, also before it begins; 0: none was asked for.

    Raises:
        ValueError: it does not say of both logs where they ended, partition by partition.
    """

    pause_epoch: int = 0
    at_ms: int = 0
    producers: tuple[Sequence[ProducerEntry], ...] = ()  # always `tables`
    stopped_at: tuple[int, ...] = ()
    stopped_copy_at: tuple[int, ...] = ()
    not_mirrored: tuple[int, ...] = ()
    source_answered: bool = False
    retries_unknown: tuple[int, ...] = ()
    promoted_with: tuple[str, ...] = ()
    then_reverse: ThenReverse = ThenReverse.NO
    undo: Undo = Undo.NONE
    undo_until_ms: int = 0
    unstamped: bool = False

    def __post_init__(self) -> None:
        _both_logs("stopped_at", self.stopped_at, "stopped_copy_at", self.stopped_copy_at)
        if type(self.producers) is not ProducerTables:
            object.__setattr__(self, "producers", ProducerTables(self.producers))

    @property
    def tables(self) -> ProducerTables:
        """`producers`, as what they are. Whoever needs them whole asks `state/per_partition.py`."""
        return self.producers if isinstance(self.producers, ProducerTables) else ProducerTables(self.producers)

    def grown(self, added: int) -> MirrorCutover:
        """When so many partitions were added to the topic: they have nothing behind them."""
        return replace(
            self,
            producers=_longer(self.producers, PackedProducers(), added),
            stopped_at=_longer(self.stopped_at, 0, added),
            stopped_copy_at=_longer(self.stopped_copy_at, 0, added),
            not_mirrored=_longer(self.not_mirrored, 0, added),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorFailback:
    """Which way a topic is mirrored, since when, and what its failback needs.

    `direction`: which cluster is written; STOPPED is forward. `epoch`: how often the topic's writes have failed back
    (see `state/producer_ids.py`). `handed_over_at[p]`: the copy's log end when the present mirror began to write there,
    everything below is older than it, and `handed_over_from[p]` the origin's offset that goes with it; empty: 0.
    `reverse_starts[p]`: where a mirror back begins that fills an empty topic; empty: at 0. `then_pause`: the mirror is
    to be PAUSED once it has begun. `recreate`: configs (and `replication.factor`) of the failback destination, kept
    from before it is deleted until it is there again. `cutovers`: the changes of sides before the one with which the
    present mirror period began, oldest first, as far as they are remembered (`mirror/offset_map/rules/periods.py`).

    Raises:
        ValueError: it does not say of both logs where the present mirror began, partition by partition.
    """

    direction: MirrorDirection = MirrorDirection.FORWARD
    epoch: int = 0
    handed_over_at: tuple[int, ...] = ()
    handed_over_from: tuple[int, ...] = ()
    reverse_starts: tuple[PartitionStart, ...] = ()
    then_pause: bool = False
    recreate: Mapping[str, str] = field(default_factory=dict)
    cutovers: tuple[Cutover, ...] = ()

    def __post_init__(self) -> None:
        _both_logs("handed_over_at", self.handed_over_at, "handed_over_from", self.handed_over_from)

    def grown(self, added: int) -> MirrorFailback:
        """When so many partitions were added to the topic: they have nothing behind them."""
        none = (0,) * added
        return replace(
            self,
            handed_over_at=_longer(self.handed_over_at, 0, added),
            handed_over_from=_longer(self.handed_over_from, 0, added),
            reverse_starts=_longer(self.reverse_starts, PartitionStart(0, 0), added),
            cutovers=tuple(Cutover(cutover.source + none, cutover.target + none) for cutover in self.cutovers),
        )


def _both_logs(name: str, one: tuple[int, ...], other_name: str, other: tuple[int, ...]) -> None:
    if len(one) != len(other):
        raise ValueError(f"{name} has {len(one)} entries, {other_name} {len(other)}: they belong together")


def _longer(found: tuple[_T, ...], new: _T, added: int) -> tuple[_T, ...]:
    """An empty list says that there is nothing of its kind, and stays so."""
    return found + (new,) * added if found else found


@dataclass(frozen=True, slots=True)
class TransitionError:
    """Why a change of state that was asked for did not come about, or not yet.

    `error_code`: Confluent's, see `state/transition_errors.py`. `operation`: what was asked for, in the words of
    `state/mirror_transitions.py`. `time_ms`: the wall clock of whoever led.
    """

    error_code: str
    error_message: str
    operation: str = ""
    time_ms: int = 0


@dataclass(frozen=True, slots=True)
class Upstream:
    """A cluster from which the mirror's source got the topic, by a mirror of its own.

    `cluster_id`: that cluster. `link`, `topic`: of that mirror there, and its source topic. `ends[p]`: when it was
    promoted: what lies below in the topic that it wrote came from `cluster_id`, what lies behind did not; empty while
    it is mirrored.
    """

    cluster_id: str
    link: str
    topic: str
    ends: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorRecord:
    """A mirror topic. `starts[p]` is the start of partition p; its length is the partition count.

    `restore_configs` are topic configs that were lifted while mirrored and are set back at promote.
    `readable`: every partition was padded once, so the topic may be read. `created` is False from before the topic is
    created on the target until that is done: what a crash in between leaves is finished at the next start.
    `compacted`: the source topic is compacted, so records vanish while they are copied (mode translate).
    `lost[p]`: what the source deleted before it was mirrored, where the link says to go on; empty while there is none.
    `upstream`: from where the source itself has mirrored the topic, the nearest first, as last seen.
    `translates_ids`: where in its records ids of schemas are written anew (`ID_PLACES`), from the first record on;
    empty: the records are copied as bytes. It never changes.

    What the operator said at create: `configs` are the topic's own, which are not synced; `replication_factor` 0 is the
    link's; `start` is where it begins, in the words of `topics/rules/start_point.py`, '' as the link says.
    `deletion`: `mirror delete` has begun. `replaces`: the id of the topic that is deleted before the mirror's own is
    created anew. `repairs`: how often a failed mirror was set going again; tells what was heard of it before from what
    is heard now. `goes_on`: an operator said to go on behind records that the origin has no more, whatever the link
    says. `transition_errors`: the last ones, oldest first.

    The lists of `cutover` and `failback` have an entry per partition too, see `state/per_partition.py`.
    """

    link: str
    source_topic: str
    mirror_topic: str
    mirror_id: int
    source_topic_id: str = ""
    mirror_topic_id: str = ""
    state: MirrorState = MirrorState.ACTIVE
    state_since_ms: int = 0
    mode: MirrorMode = MirrorMode.PRESERVE
    mode_reason: str = ""
    starts: tuple[PartitionStart, ...] = ()
    error: MirrorError = MirrorError.NO_ERROR
    error_message: str = ""
    restore_configs: Mapping[str, str] = field(default_factory=dict)
    readable: bool = False
    created: bool = True
    compacted: bool = False
    lost: tuple[LostRecords, ...] = ()
    configs: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int = 0
    start: str = ""
    deletion: Deletion = Deletion.NONE
    replaces: str = ""
    repairs: int = 0
    goes_on: bool = False
    transition_errors: tuple[TransitionError, ...] = ()
    cutover: MirrorCutover = field(default_factory=MirrorCutover)
    failback: MirrorFailback = field(default_factory=MirrorFailback)
    upstream: tuple[Upstream, ...] = ()
    translates_ids: tuple[str, ...] = ()

    @property
    def is_reverse(self) -> bool:
        """True while the target is the origin, and the mirror goes back to the source."""
        return self.failback.direction is MirrorDirection.REVERSE


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """One offset that a group has committed on the source, in the source's numbers: not translated, and not stored.

    `topic` is the mirror topic.
    """

    topic: str
    partition: int
    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class CarriedOffset:
    """A `SourceOffset` and what was made of it on the target.

    `topic` is the mirror topic. `rule`: how it was translated, see `mirror/offset_map/rules/offset_map.py`.
    """

    topic: str
    partition: int
    source_offset: int
    target_offset: int
    metadata: str = ""
    rule: str = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A mirror group: gated on the target until promoted.

    `group` is its name on the target, `source_group` the one on the source where the link's prefix makes it another.
    `note`: what the operator should know of the offsets that were carried. `demoted`: it was sent back to the source
    and nobody has been seen to read there since. `sent_back`: what the source held for it then, so that whoever leads
    sees by its commits that somebody has come, and gone, while nobody looked; empty while it is not `demoted`. `kind`:
    as the cluster told that it was carried from last; of a SHARE group, offsets are start offsets (KIP-932).
    `silent_s`: the longest time in seconds that was seen between two commits by nobody who is a member
    (`groups/rules/silences.py`).
    """

    link: str
    group: str
    state: GroupState = GroupState.ACTIVE
    state_since_ms: int = 0
    offsets: tuple[CarriedOffset, ...] = ()
    error_message: str = ""
    note: str = ""
    source_group: str = ""
    demoted: bool = False
    sent_back: tuple[SourceOffset, ...] = ()
    kind: GroupKind = GroupKind.CONSUMER
    silent_s: int = 0

    @property
    def source_name(self) -> str:
        """The group's name on the source."""
        return self.source_group or self.group


@dataclass(frozen=True, slots=True)
class SequenceRecord:
    """The last id given out of a sequence ("link", "mirror"): ids are never reused, not even after a delete; or another
    number that only rises (`state/failback_records.py`)."""

    name: str
    last: int


@dataclass(frozen=True, slots=True)
class OriginRecord:
    """Which source a link's tag stands for, for good: also when the link is deleted, and its batches are still there.

    `link_id`: the tag, as `state/producer_ids.py` `mirror_of` reads it in a log.
    """

    link_id: int
    link: str
    source_cluster_id: str
    created_ms: int = 0
