"""A partition: its replicas, who leads, and the way of a batch from the leader to all of the ISR.

Followers fetch a short, random while after an append; the high watermark is the lowest log end of the ISR and of those
about to join it, and stands still below min.insync.replicas. A replica leaves the ISR when it has lacked something for
replica.lag.time.max.ms and comes back when it has all up to the high watermark. Nothing here runs periodically.

What the coordinators need (it works on the leader that the controller knows; the error is what that broker would
answer): `append_marker`, `append_internal`, `ongoing`, `producers`, `leader_id`, `leader_epoch`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.errors import ErrorCode
from tests.simulation.kafka.logs.log import Batch
from tests.simulation.kafka.logs.markers import marker_batch
from tests.simulation.kafka.logs.replica import Leadership, Replica
from tests.simulation.kafka.logs.retention import retention_start

if TYPE_CHECKING:
    from tests.simulation.kafka.cluster import ClusterModel
    from tests.simulation.kafka.topics import Topic

_IDLE_FETCH_S: Final = 0.5
"""replica.fetch.wait.max.ms: after so long at most a follower fetches again, and hears of the high watermark."""


class LeaderState(NamedTuple):
    """What the controller decided: `leader` is -1 when there is none."""

    leader: int
    epoch: int
    isr: tuple[int, ...]
    version: int


class ActiveProducer(NamedTuple):
    """A producer that a partition knows, as DescribeProducers shows it. Absent values are -1."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class Partition:
    """See the module. `views` has what brokers that have not heard of `state` yet believe."""

    def __init__(self, cluster: ClusterModel, topic: Topic, index: int, assignment: Sequence[int]) -> None:
        self.cluster = cluster
        self.topic = topic
        self.index = index
        self.assignment = list(assignment)
        self.replicas = {broker_id: Replica(self, broker_id) for broker_id in assignment}
        self.views: dict[int, LeaderState] = {}
        self._led_by = -1  # the last broker that did
        live = [broker_id for broker_id in assignment if broker_id not in cluster.fenced]
        self.state = LeaderState(live[0] if live else -1, 0, tuple(live or assignment), 0)
        for broker_id in assignment:
            if cluster.brokers[broker_id].alive:
                self.learn(broker_id)

    def __repr__(self) -> str:
        return f"{self.topic.name}-{self.index}"

    # -- who leads ------------------------------------------------------------------------------------------------

    @property
    def leader_id(self) -> int:
        """The broker that leads, -1 for none, as the controller knows it."""
        return self.state.leader

    @property
    def leader_epoch(self) -> int:
        """The current leader epoch."""
        return self.state.epoch

    @property
    def leader(self) -> Replica | None:
        """The replica that leads, when its broker knows that it does, runs, and is not cut off."""
        replica = self.replicas.get(self.state.leader)
        if replica is None or replica.leading is None or not self.cluster.brokers[replica.broker_id].connected:
            return None
        return replica

    def seen_by(self, broker_id: int) -> LeaderState:
        """What a broker believes."""
        return self.views.get(broker_id, self.state)

    def on(self, broker_id: int) -> Replica | ErrorCode:
        """The replica that a broker leads with; what it answers when it does not lead."""
        replica = self.replicas.get(broker_id)
        if replica is None or replica.leading is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return replica

    def decide(self, leader: int, isr: Sequence[int]) -> None:
        """The controller's decision; brokers hear of a new leader a little later."""
        self.cluster.changes += 1
        old = self.state
        epoch = old.epoch + 1 if leader != old.leader else old.epoch
        self.state = LeaderState(leader, epoch, tuple(isr), old.version + 1)
        if epoch == old.epoch:
            self._isr_changed()
            return
        self.cluster.trace(f"{self}: leader {old.leader} -> {leader}, epoch {epoch}, isr {self.state.isr}")
        for broker in self.cluster.brokers.values():
            if broker.alive:
                self.views.setdefault(broker.id, old)
        self.cluster.controller.announce(self)

    def learn(self, broker_id: int) -> None:
        """A broker hears of the current state."""
        self.cluster.changes += 1
        self.views.pop(broker_id, None)
        state = self.state
        replica = self.replicas.get(broker_id)
        if replica is None or replica.epoch == state.epoch or self.topic.deleted:
            return
        replica.leader, replica.epoch = state.leader, state.epoch
        if state.leader == broker_id:
            if len(self.replicas) == 1:
                replica.log.raise_high_watermark(replica.log.end)
            self._tell_lost(replica)
            replica.lead(state.epoch)
            self._advance(replica)
        else:
            replica.resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.catch_up()
        for hook in self.cluster.on_leader:  # of each epoch, as brokers do: who led before may lead again
            hook(self, broker_id, state.leader)

    def _tell_lost(self, replica: Replica) -> None:
        """What the leader before had appended, and the new one does not have: nobody does any more."""
        before, self._led_by = self._led_by, replica.broker_id
        if before == replica.broker_id or not self.cluster.on_lost:
            return
        log = self.replicas[before].log if before in self.replicas else replica.log
        lost = list(log.batches_from(replica.log.end))
        if lost:
            for hook in self.cluster.on_lost:
                hook(self, lost, log.high_watermark)

    def delete(self) -> None:
        """The topic is gone: whoever waits is told."""
        for replica in self.replicas.values():
            replica.resign(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    # -- appending ------------------------------------------------------------------------------------------------

    def append(self, replica: Replica, data: bytes | memoryview) -> Batch:
        """Append a batch that has been checked, on the broker that leads."""
        leading = replica.leading
        assert leading is not None, f"{self} is not led by {replica.broker_id}"
        log = replica.log
        table = log.producers
        batch = Batch.stamped(data, log.end, leading.epoch)
        settings = self.topic.settings
        log.append(batch, settings.segment_bytes, settings.segment_ms)
        table.take(batch.header, batch.marker)
        if len(self.replicas) > 1:
            self._send(replica, leading)
        self._advance(replica)
        for hook in self.cluster.on_append:
            hook(self, batch)
        return batch

    def acked(self, replica: Replica, offset: int) -> ErrorCode | asyncio.Future[ErrorCode]:
        """What acks=all comes to when all of the ISR has what is below `offset`; a future while it has not."""
        leading = replica.leading
        if leading is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if replica.log.high_watermark >= offset:
            return self._enough_replicas(replica)
        future: asyncio.Future[ErrorCode] = self.cluster.loop.create_future()
        leading.produces.append((offset, future))
        return future

    def _enough_replicas(self, replica: Replica) -> ErrorCode:
        enough = len(self.seen_by(replica.broker_id).isr) >= self.min_isr
        return ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, or the number of replicas when there are fewer."""
        return min(self.topic.settings.min_insync_replicas, len(self.replicas))

    def is_under_min_isr(self, broker_id: int) -> bool:
        """True when acks=all is refused."""
        return len(self.seen_by(broker_id).isr) < self.min_isr

    # -- replication ----------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Let followers fetch that lack something, or whose leader does not know how far they are."""
        replica = self.leader
        if replica is not None and replica.leading is not None:
            self._send(replica, replica.leading, everyone=True)

    def _send(self, replica: Replica, leading: Leadership, everyone: bool = False) -> None:
        cluster = self.cluster
        now = cluster.loop.time()
        for other in self.assignment:
            if other == replica.broker_id:
                continue
            if not everyone or leading.ends.get(other, -1) < replica.log.end:
                self._fall_behind(other, leading, now)
            if other in leading.copying or not cluster.brokers[other].connected:
                continue
            follower = self.replicas[other]
            if follower.epoch != leading.epoch:
                continue  # it does not follow this leader yet: `learn` comes back here
            leading.copying.add(other)
            delay = max(follower.lag_until - now, 0.0) + cluster.replica_lag_s * (0.2 + cluster.rng.random())
            cluster.later(cluster.brokers[replica.broker_id].host, delay, self._copy, replica, leading, other)

    def _fall_behind(self, other: int, leading: Leadership, now: float) -> None:
        if other not in leading.behind_since:
            leading.behind_since[other] = now
            if not self.cluster.brokers[other].connected or self.replicas[other].lag_until > now:
                self.watch(other, leading)

    def _copy(self, replica: Replica, leading: Leadership, other: int) -> None:
        leading.copying.discard(other)
        cluster = self.cluster
        follower = self.replicas[other]
        if replica.leading is not leading or self.topic.deleted or not cluster.brokers[replica.broker_id].connected:
            return
        if not cluster.brokers[other].connected or follower.epoch != leading.epoch:
            self.watch(other, leading)
            return
        if follower.lag_until > cluster.loop.time():
            self._send(replica, leading, everyone=True)
            self.watch(other, leading)
            return
        follower.fetch_from(replica.log)
        leading.ends[other] = follower.log.end
        leading.behind_since.pop(other, None)
        self._maybe_join(replica, leading, other)
        self._advance(replica)
        if leading.deletes:
            self._answer_deletes(leading)

    def _advance(self, replica: Replica) -> None:
        """Move the high watermark as far as the ISR allows."""
        leading = replica.leading
        log = replica.log
        state = self.seen_by(replica.broker_id)
        if leading is None or len(state.isr) < self.min_isr:
            return
        offset = log.end
        if len(self.replicas) > 1:
            for other in self.assignment:
                if other == replica.broker_id:
                    continue
                end = leading.ends.get(other, -1)
                if end < offset and (other in state.isr or self._about_to_join(leading, other)):
                    offset = end
        if log.raise_high_watermark(offset):
            leading.answer(log.high_watermark, self._enough_replicas(replica))
            replica.wake_readers()
            self._tell_later(replica, leading)

    def _tell_later(self, replica: Replica, leading: Leadership) -> None:
        if len(self.replicas) > 1 and not leading.tells:
            leading.tells = True
            host = self.cluster.brokers[replica.broker_id].host
            self.cluster.later(host, _IDLE_FETCH_S, self._tell_high_watermark, replica, leading)

    def _tell_high_watermark(self, replica: Replica, leading: Leadership) -> None:
        """Followers that have nothing to copy hear of it, too: it is as far as they are read, and known to the next
        leader."""
        leading.tells = False
        if replica.leading is not leading or self.topic.deleted:
            return
        if not self.cluster.brokers[replica.broker_id].connected:
            return  # they hear of it when they fetch again
        now = self.cluster.loop.time()
        for other in self.assignment:
            follower = self.replicas[other]
            if follower is replica or follower.epoch != leading.epoch or not self.cluster.brokers[other].connected:
                continue  # it hears of it when it is back
            if follower.lag_until > now:
                host = self.cluster.brokers[replica.broker_id].host
                self.cluster.later(host, follower.lag_until - now, self._tell_later, replica, leading)
            elif follower.log.raise_high_watermark(replica.log.high_watermark):
                follower.wake_readers()

    def _about_to_join(self, leading: Leadership, other: int) -> bool:
        if other in self.cluster.fenced or other not in leading.ends:
            return False
        since = leading.behind_since.get(other)
        return since is None or self.cluster.loop.time() - since <= self.cluster.replica_lag_max_s

    # -- the ISR --------------------------------------------------------------------------------------------------

    def watch(self, other: int, leading: Leadership) -> None:
        """Look later whether a follower still lacks something, and has for too long."""
        replica = self.replicas.get(self.state.leader)
        since = leading.behind_since.get(other)
        if replica is None or replica.leading is not leading or since is None:
            return
        wait = since + self.cluster.replica_lag_max_s * (1 + self.cluster.rng.random() / 2) - self.cluster.loop.time()
        host = self.cluster.brokers[replica.broker_id].host
        self.cluster.later(host, max(wait, 0.0), self._maybe_leave, replica, leading, other, since)

    def _maybe_leave(self, replica: Replica, leading: Leadership, other: int, since: float) -> None:
        if replica.leading is not leading or leading.behind_since.get(other) != since:
            return
        if not self.cluster.brokers[replica.broker_id].connected:
            return  # it cannot ask the controller for it
        if self.state.epoch == leading.epoch and other in self.state.isr:
            self.decide(self.state.leader, [member for member in self.state.isr if member != other])

    def _maybe_join(self, replica: Replica, leading: Leadership, other: int) -> None:
        state = self.state
        if other in state.isr or state.epoch != leading.epoch or other in self.cluster.fenced:
            return
        if leading.ends[other] >= max(replica.log.high_watermark, leading.epoch_start):
            self.decide(state.leader, [*state.isr, other])

    def configured(self) -> None:
        """The topic's configuration is another."""
        self._isr_changed()

    def _isr_changed(self) -> None:
        replica = self.leader
        if replica is not None and replica.leading is not None and replica.leading.epoch == self.state.epoch:
            self._advance(replica)

    # -- what coordinators and admin requests do here -------------------------------------------------------------

    def append_marker(self, producer_id: int, epoch: int, commit: bool, coordinator_epoch: int) -> ErrorCode:
        """End a producer's transaction here (WriteTxnMarkers on the leader, at once).

        NONE (also when nothing was open), NOT_LEADER_OR_FOLLOWER (try again later), INVALID_PRODUCER_EPOCH,
        TRANSACTION_COORDINATOR_FENCED, NOT_ENOUGH_REPLICAS.
        """
        replica = self.leader
        if replica is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.is_under_min_isr(replica.broker_id):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        error = replica.log.producers.check_marker(producer_id, epoch, coordinator_epoch)
        if error == ErrorCode.NONE:
            now_ms = self.cluster.brokers[replica.broker_id].now_ms()
            self.append(replica, marker_batch(producer_id, epoch, commit, coordinator_epoch, now_ms))
        return error

    async def append_internal(self, records: bytes, timeout_s: float = 5.0) -> ErrorCode:
        """Append record batches of the broker's own with acks=all; NONE when they are in all of the ISR."""
        replica = self.leader
        if replica is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.is_under_min_isr(replica.broker_id):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        acked = self.acked(replica, self.append(replica, records).last + 1)
        if isinstance(acked, ErrorCode):
            return acked
        timer = self.cluster.loop.call_later(timeout_s, _time_out, acked)
        error = await acked
        timer.cancel()
        return error

    def ongoing(self, producer_id: int) -> int | None:
        """First offset of the producer's open transaction here, None without one."""
        replica = self.leader or self._any_log()
        producer = replica.log.producers.producers.get(producer_id)
        return None if producer is None or producer.txn_start < 0 else producer.txn_start

    def producers(self) -> list[ActiveProducer]:
        """The producers that the leader knows."""
        table = (self.leader or self._any_log()).log.producers
        return [
            ActiveProducer(
                producer_id,
                producer.epoch,
                producer.last_sequence,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.txn_start,
            )
            for producer_id, producer in table.producers.items()
        ]

    def log_start(self) -> int:
        """First offset of the leader's log."""
        return self.best.log.start

    @property
    def is_gapless(self) -> bool:
        """There is a record at each offset of the leader's log: no markers, and nothing was compacted away."""
        batches = self.best.log.batches
        headers = [batch.header for batch in batches]
        if any(header.is_control or header.count <= header.last_offset_delta for header in headers):
            return False
        return all(one.last + 1 == other.header.base_offset for one, other in pairwise(batches))

    def delete_records(self, before: int) -> tuple[ErrorCode, int]:
        """DeleteRecords on the leader: the error and the new low watermark; -1 as `before` is the high watermark."""
        replica = self.leader
        if replica is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        settings = self.topic.settings
        if not settings.deleted and (settings.compacted or not self.cluster.version.startswith("4.")):
            return ErrorCode.POLICY_VIOLATION, -1
        log = replica.log
        offset = log.high_watermark if before == -1 else before
        if offset < 0 or offset > log.high_watermark:
            return ErrorCode.OFFSET_OUT_OF_RANGE, -1
        self.advance_start(replica, offset)
        return ErrorCode.NONE, log.start

    @property
    def low_watermark(self) -> int:
        """Lowest log start of the replicas that are alive: what DeleteRecords waits for."""
        fenced = self.cluster.fenced
        return min(
            replica.log.start
            for broker_id, replica in self.replicas.items()
            if broker_id not in fenced or broker_id == self.leader_id
        )

    def deleted(self, replica: Replica, before: int) -> ErrorCode | asyncio.Future[ErrorCode]:
        """What DeleteRecords comes to when the log of every live replica starts at `before`; a future until then."""
        leading = replica.leading
        if leading is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.low_watermark >= before:
            return ErrorCode.NONE
        future: asyncio.Future[ErrorCode] = self.cluster.loop.create_future()
        leading.deletes.append((before, future))
        return future

    def _answer_deletes(self, leading: Leadership) -> None:
        low = self.low_watermark
        for before, future in leading.deletes:
            if before <= low and not future.done():
                future.set_result(ErrorCode.NONE)
        leading.deletes = [(before, future) for before, future in leading.deletes if not future.done()]

    def advance_start(self, replica: Replica, offset: int) -> None:
        """Move the log start of the leader; followers hear of it with their next fetch."""
        if replica.log.advance_start(offset):
            self.catch_up()

    def apply_retention(self, replica: Replica, now_ms: int) -> None:
        """What the log manager does every log.retention.check.interval.ms."""
        self.advance_start(replica, retention_start(replica.log, self.topic.settings, now_ms))

    @property
    def best(self) -> Replica:
        """The leader's replica, or the one that would be there without a fault: for judges."""
        return self.leader or self._any_log()

    def _any_log(self) -> Replica:
        led = self.replicas.get(self.state.leader)
        if led is not None:
            return led
        members = [self.replicas[broker_id] for broker_id in self.state.isr if broker_id in self.replicas]
        return max(members or self.replicas.values(), key=lambda replica: replica.log.end)


def _time_out(future: asyncio.Future[ErrorCode]) -> None:
    if not future.done():
        future.set_result(ErrorCode.REQUEST_TIMED_OUT)
