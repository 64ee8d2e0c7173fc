"""What one run of a topic promote has learnt and done so far. No I/O; it is lost with the process.

Separate from the runner, so that the exhaustive tests exercise the very object that the runner uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gateway.cutover.promote.rules.snapshot import (
    CopyReading,
    Drain,
    EndReading,
    PromoteSnapshot,
    TopicSnapshot,
    observe,
)
from gateway.cutover.write_pause.interface import PauseAck
from gateway.cutover.write_pause.rules.routing import WritePhase
from gateway.mirror.rules.copy_ends import CopyEnds, RunningPartitions
from gateway.state.promote_sets import is_called_off
from gateway.state.records import MirrorRecord, MirrorState


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicObservations:
    """What the runner reads again for each decision: the record and the mirror; `phases` as the gateways answered."""

    record: MirrorRecord
    phases: Mapping[str, WritePhase]
    running_partitions: RunningPartitions
    lag: int | None = None
    blocked_by: str = ""


ACL_TRIES = 3
"""How often the run tries to bring the target's ACLs up to date before it pauses writes without that."""

CONFIG_TRIES = 3
"""How often the run tries to read the origin's topic configs before it pauses writes without them."""


def _all_stopped(facts: Sequence[TopicObservations]) -> bool:
    return all(each.record.state is MirrorState.STOPPED for each in facts)


def _short(reading: EndReading, acks: Iterable[PauseAck]) -> tuple[int, int, int] | None:
    """The first partition that ends below what was acknowledged to a client: (partition, end, acknowledged).

    A partition added meanwhile, which the reading does not have, counts as ending at 0.
    """
    ends = reading.ends
    for ack in acks:
        for partition, acked in ack.acked:
            end = ends[partition] if partition < len(ends) else 0
            if end < acked:
                return partition, end, acked
    return None


class PromoteMemory:
    """The memory of one run over a set of topics (mirror topic names). Times are monotonic seconds.

    `paused_at`, `committing`, `unreachable_since`, `source_error` and `gave_up` are as in PromoteSnapshot.
    `restore_later`: the topics' configs could not be restored now, and are not waited for. `config_error`: why the last
    read of the origin's topic configs failed; '' when it succeeded.
    """

    def __init__(self, topics: Sequence[str], *, rehearses: bool = False) -> None:
        self.topics = tuple(topics)
        self.rehearses = rehearses
        self.paused_at: float | None = None
        self.committing = False
        self.gave_up = ""
        self.unreachable_since: float | None = None
        self.source_error = ""
        self.restore_later = False
        self._epochs: dict[str, int] = {}
        self._acks: dict[str, dict[str, PauseAck]] = {}
        self._acked_at: dict[str, float] = {}
        self._drains: dict[str, Drain] = {}
        self._short: dict[str, tuple[int, int, int]] = {}
        self._stopped: dict[str, CopyEnds] = {}
        self._copies: dict[str, CopyReading] = {}
        self._partitions: dict[str, int] = {}
        self._restore: dict[str, Mapping[str, str]] = {}
        self._config_failures = 0
        self.config_error = ""
        self.acl_error = ""
        self._acl_rounds: dict[bool, int] = {}  # whether it has cut over -> tries that are left

    def acls_follow(self) -> None:
        """The link copies ACLs: have them brought up to date before the pause and after the cutover."""
        self._acl_rounds = {False: ACL_TRIES, True: 1}

    def acls_synced(self, cut_over: bool, error: str = "") -> None:
        """The target's ACLs were brought up to date, or `error` says why not."""
        self.acl_error = error
        self._acl_rounds[cut_over] = self._acl_rounds.get(cut_over, 0) - 1 if error else 0

    def marked(self, topic: str, epoch: int) -> None:
        """This run persisted PENDING_STOPPED with this epoch."""
        self._epochs[topic] = epoch

    def pause_began(self, now: float) -> None:
        """Writes pause from now on."""
        if self.paused_at is None:
            self.paused_at = now

    def acknowledged(self, ack: PauseAck, now: float) -> None:
        """A gateway acknowledged a pause. Ignores an answer to another epoch."""
        if ack.epoch == self._epochs.get(ack.topic):
            self._acks.setdefault(ack.topic, {})[ack.gateway] = ack
            self._acked_at[ack.topic] = now

    def acks(self, topic: str) -> Mapping[str, PauseAck]:
        """The acknowledgements so far, by gateway."""
        return self._acks.get(topic, {})

    def phases(self, record: MirrorRecord, gateways: frozenset[str]) -> Mapping[str, WritePhase]:
        """Where the topic's writes go at each of these gateways, as it answered the present pause."""
        acks = self.acks(record.mirror_topic).items()
        return {name: ack.phase for name, ack in acks if name in gateways and ack.epoch == record.cutover.pause_epoch}

    def read(self, topic: str, reading: EndReading) -> None:
        """The source answered."""
        self.source_answered()
        self._partitions[topic] = reading.partitions
        if self.paused_at is None:
            return
        short = _short(reading, self.acks(topic).values())
        if short is not None:  # a former leader's answer: its earlier readings are void, too
            self._short[topic] = short
            self._drains.pop(topic, None)
            return
        self._short.pop(topic, None)
        self._drains[topic] = observe(self._drains.get(topic), reading, self._acked_at.get(topic, 0.0))

    def counted(self, topic: str, partitions: int) -> None:
        """Note how many partitions the origin has, asked after the mirror was stopped."""
        self._partitions[topic] = partitions

    def source_answered(self) -> None:
        """The source is reachable."""
        self.unreachable_since, self.source_error = None, ""

    def source_failed(self, now: float, message: str) -> None:
        """The source did not answer."""
        if self.unreachable_since is None:
            self.unreachable_since = now
        self.source_error = message

    def ends(self, topic: str) -> tuple[int, ...]:
        """The source's ends as last read under the write pause; empty before."""
        drain = self._drains.get(topic)
        return drain.last.ends if drain is not None else ()

    def mirror_stopped(self, topic: str, ends: CopyEnds) -> None:
        """The engine appends nothing more to the topic; `ends` is the mirror's answer right before."""
        self._stopped[topic] = ends

    def handed(self, topic: str) -> CopyEnds | None:
        """The mirror's answer right before it was stopped; None before that."""
        return self._stopped.get(topic)

    def copy_read(self, topic: str, reading: CopyReading) -> None:
        """Where the copy ends, read after the mirror was stopped."""
        self.source_answered()
        self._copies[topic] = reading

    def configs(self, restore: Mapping[str, Mapping[str, str]]) -> None:
        """The origin's topic configs were read: per topic, its copy's configs from the cutover on."""
        self._restore, self.config_error = dict(restore), ""

    def configs_failed(self, error: str) -> None:
        """The origin's topic configs could not be read."""
        self._config_failures += 1
        self.config_error = error

    @property
    def configs_read(self) -> bool:
        """The configs were read once, or are no longer waited for."""
        return bool(self._restore) or self._config_failures >= CONFIG_TRIES

    def restore_of(self, topic: str) -> Mapping[str, str] | None:
        """The configs of the topic's copy from the cutover on; None: those in its record."""
        return self._restore.get(topic)

    def give_up(self, reason: str) -> None:
        """Remember the first reason; from now on the run only goes back."""
        self.gave_up = self.gave_up or reason

    def resumed(self) -> None:
        """Writes go on: everything learnt under the write pause is void."""
        self.paused_at = None
        self._acks.clear()
        self._acked_at.clear()
        self._drains.clear()
        self._short.clear()
        self._stopped.clear()
        self._copies.clear()

    def snapshot(
        self,
        now: float,
        gateways: frozenset[str],
        facts: Sequence[TopicObservations],
        *,
        earliest_pause: float = 0.0,
        origin: str = "source",
    ) -> PromoteSnapshot:
        """The present snapshot."""
        return PromoteSnapshot(
            now=now,
            gateways=gateways,
            topics=tuple(self._topic(each) for each in facts),
            earliest_pause=earliest_pause,
            paused_at=self.paused_at,
            committing=self.committing,
            unreachable_since=self.unreachable_since,
            source_error=self.source_error,
            gave_up=self.gave_up,
            origin=origin,
            configs_read=self.configs_read,
            config_error=self.config_error,
            acls_synced=self._acl_rounds.get(_all_stopped(facts), 0) <= 0,
            acl_error=self.acl_error,
            rehearses=self.rehearses,
        )

    def _topic(self, facts: TopicObservations) -> TopicSnapshot:
        record = facts.record
        topic = record.mirror_topic
        handed = self._stopped.get(topic)
        running_partitions = (
            facts.running_partitions if handed is None else RunningPartitions(handed.mirrored)
        )  # nothing runs any more
        return TopicSnapshot(
            topic=topic,
            state=record.state,
            epoch=record.cutover.pause_epoch,
            marked=self._epochs.get(topic) == record.cutover.pause_epoch
            and record.state is MirrorState.PENDING_STOPPED,
            phases=facts.phases,
            lag=facts.lag,
            acks=self._acks.get(topic, {}),
            acked_at=self._acked_at.get(topic, 0.0),
            drain=self._drains.get(topic),
            positions=running_partitions.mirrored,
            absent=running_partitions.absent,
            cold=running_partitions.cold,
            partitions=self._partitions.get(topic),
            batches=running_partitions.batches,
            stopped=handed is not None,
            handed=handed,
            copy=self._copies.get(topic),
            short=self._short.get(topic),
            restored=self.restore_later or not record.restore_configs,
            blocked_by=facts.blocked_by,
            called_off=is_called_off(record),
        )
