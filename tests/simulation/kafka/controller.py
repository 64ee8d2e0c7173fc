"""The controller (KRaft), as far as brokers and their clients notice it: who is alive, who leads, who hears when.

It takes a broker for dead when its session timed out (broker.session.timeout.ms), takes it out of every ISR, and gives
what it led to a live member of the ISR; a partition without one has no leader until a member comes back, or, with
unclean.leader.election.enable, goes to any live replica. The last member stays in the ISR. No fault hits the controller
itself; its node is `<cluster>-controller`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tests.simulation.kafka.logs.fetch_session import FetchSessions

if TYPE_CHECKING:
    from tests.simulation.kafka.broker import Broker
    from tests.simulation.kafka.cluster import ClusterModel
    from tests.simulation.kafka.logs.partition import Partition
    from tests.simulation.kafka.topics import Topic


class Controller:
    """See the module. `id` is the broker that Metadata names as the controller."""

    def __init__(self, cluster: ClusterModel) -> None:
        self._cluster = cluster
        self._stopped_in_order: set[int] = set()
        self._incarnation = dict.fromkeys(cluster.brokers, 0)
        self._session_s = cluster.config_int("broker.session.timeout.ms") / 1000

    @property
    def id(self) -> int:
        """A live broker: any may be named, clients send what is the controller's to it and it forwards."""
        live = [broker_id for broker_id in self._cluster.brokers if broker_id not in self._cluster.fenced]
        return live[0] if live else -1

    def seen_by(self, broker: Broker) -> int:
        """The one that a broker names, by what it knows."""
        return next((broker_id for broker_id in self._cluster.brokers if broker_id not in broker.fenced), -1)

    # -- brokers --------------------------------------------------------------------------------------------------

    async def boot(self, broker: Broker) -> None:
        """Start a broker's port and its periodic work."""
        cluster = self._cluster
        if cluster.sim is not None:
            await cluster.sim.spawn(cluster.sim.node(broker.host), broker.listen(), f"{broker.host} listens")
        self._every("log.retention.check.interval.ms", broker, self._retain)
        self._every("producer.id.expiration.check.interval.ms", broker, self._expire)

    def _every(self, config: str, broker: Broker, work: Callable[[Broker], None]) -> None:
        cluster = self._cluster
        incarnation = self._incarnation[broker.id]
        interval_s = cluster.config_int(config) / 1000

        def run() -> None:
            if self._incarnation[broker.id] == incarnation and broker.alive:
                work(broker)
                cluster.later(broker.host, interval_s, run)

        cluster.later(broker.host, interval_s * (0.5 + cluster.rng.random()), run)

    def kill(self, broker: Broker) -> None:
        """The process is gone at once."""
        if not broker.alive:
            return
        cluster = self._cluster
        self._gone(broker)
        if cluster.sim is not None:
            cluster.sim.kill(cluster.sim.node(broker.host))
        cluster.trace(f"{broker.host} is killed")
        self._when_session_ends(broker)

    def _gone(self, broker: Broker) -> None:
        cluster = self._cluster
        broker.alive, broker.paused = False, False
        if broker.cut_off:
            broker.heal()
        broker.inbox.clear()
        self._incarnation[broker.id] += 1
        broker.sessions = FetchSessions(cluster.loop, cluster.rng, broker.sessions.slots)
        for partition in self._hosted(broker):
            partition.replicas[broker.id].die()
        for topic in cluster.topics.values():
            topic.heard(broker.id)
            for partition in topic.partitions:
                partition.views.pop(broker.id, None)
        cluster.changes += 1

    async def shut_down(self, broker: Broker) -> None:
        """A controlled shutdown: leaders first, then the process."""
        cluster = self._cluster
        for partition in self._hosted(broker):
            self._drop(partition, broker.id)
        cluster.fenced.add(broker.id)
        cluster.changes += 1
        await self._pass(cluster.metadata_delay_s * 3)
        self._gone(broker)
        self._stopped_in_order.add(broker.id)
        for partition in self._hosted(broker):
            partition.replicas[broker.id].log.reload_producers(only_last=True)
        if cluster.sim is not None:
            cluster.sim.kill(cluster.sim.node(broker.host))

    async def _pass(self, seconds: float) -> None:
        future = self._cluster.loop.create_future()
        self._cluster.controller_later(seconds, future.set_result, None)
        await future

    async def restart(self, broker: Broker) -> None:
        """Start the process; it follows, and is let in when it has registered."""
        if broker.alive:
            return
        cluster = self._cluster
        self.fence(broker.id)  # its new incarnation ends the old session
        if cluster.sim is not None:
            cluster.sim.restart(cluster.sim.node(broker.host))
        broker.alive = True
        for partition in self._hosted(broker):
            replica = partition.replicas[broker.id]
            if broker.id not in self._stopped_in_order:
                replica.log.reload_producers()
            partition.learn(broker.id)
        self._stopped_in_order.discard(broker.id)
        await self.boot(broker)
        cluster.controller_later(self._delay(), self._resume_writes, broker, self._incarnation[broker.id])

    def pause(self, broker: Broker) -> None:
        """Stopped in the middle of whatever it does."""
        if not broker.running:
            return
        broker.paused = True
        cluster = self._cluster
        if cluster.sim is not None:
            cluster.sim.pause(cluster.sim.node(broker.host))
        cluster.trace(f"{broker.host} is paused")
        self._unheard(broker)

    def _unheard(self, broker: Broker) -> None:
        for partition in self._hosted(broker):
            replica = partition.leader
            if replica is not None and replica.leading is not None:
                partition.watch(broker.id, replica.leading)
        self._when_session_ends(broker)

    def cut_off(self, broker: Broker, *, groups: bool = False) -> None:
        """Neither this controller nor another broker hears of it, or it of them."""
        if not broker.connected:
            return
        broker.cut(groups=groups)
        self._cluster.changes += 1
        self._cluster.trace(f"{broker.host} is cut off from its cluster")
        self._unheard(broker)

    def rejoin(self, broker: Broker) -> None:
        """It hears, a moment later, what it missed."""
        if not broker.cut_off:
            return
        broker.heal()
        self._cluster.changes += 1
        self._cluster.trace(f"{broker.host} is back in its cluster")
        self._heard_again(broker)

    def wake(self, broker: Broker) -> None:
        """Goes on where it was."""
        if not broker.paused:
            return
        broker.paused = False
        cluster = self._cluster
        if cluster.sim is not None:
            cluster.sim.wake(cluster.sim.node(broker.host))
        cluster.trace(f"{broker.host} wakes up")
        self._heard_again(broker)

    def _heard_again(self, broker: Broker) -> None:
        cluster = self._cluster
        self._incarnation[broker.id] += 1  # the timer of its session means an earlier pause
        self._every("log.retention.check.interval.ms", broker, self._retain)
        self._every("producer.id.expiration.check.interval.ms", broker, self._expire)
        heard, broker.inbox = broker.inbox, []
        for call in heard:
            cluster.controller_later(self._delay(), call)
        for partition in self._hosted(broker):
            partition.catch_up()
        if broker.id in cluster.fenced:
            cluster.controller_later(self._delay(), self._resume_writes, broker, self._incarnation[broker.id])

    def _when_session_ends(self, broker: Broker) -> None:
        incarnation = self._incarnation[broker.id]

        def end() -> None:
            if self._incarnation[broker.id] == incarnation and not broker.connected:
                self.fence(broker.id)

        self._cluster.controller_later(self._session_s * (0.8 + self._cluster.rng.random() / 5), end)

    def fence(self, broker_id: int) -> None:
        """Take a broker for dead."""
        cluster = self._cluster
        if broker_id in cluster.fenced:
            return
        cluster.fenced.add(broker_id)
        cluster.changes += 1
        cluster.trace(f"{cluster.name}-{broker_id} is fenced")
        for partition in self._hosted(cluster.brokers[broker_id]):
            self._drop(partition, broker_id)

    def _resume_writes(self, broker: Broker, incarnation: int) -> None:
        cluster = self._cluster
        if not broker.connected or self._incarnation[broker.id] != incarnation:
            return
        cluster.fenced.discard(broker.id)
        cluster.changes += 1
        for partition in self._hosted(broker):
            if partition.state.leader == -1:
                self._elect(partition)
            partition.catch_up()

    # -- leaders --------------------------------------------------------------------------------------------------

    def _drop(self, partition: Partition, broker_id: int) -> None:
        state = partition.state
        isr = [member for member in state.isr if member != broker_id] or list(state.isr)
        if state.leader == broker_id:
            self._elect(partition, isr, without=broker_id)
        elif broker_id in state.isr:
            partition.decide(state.leader, isr)

    def _elect(self, partition: Partition, isr: Iterable[int] | None = None, without: int = -1) -> None:
        members = list(partition.state.isr if isr is None else isr)
        fenced = self._cluster.fenced
        live = [broker_id for broker_id in partition.assignment if broker_id not in fenced and broker_id != without]
        leaders = [broker_id for broker_id in live if broker_id in members]
        if leaders:
            partition.decide(leaders[0], members)
        elif live and partition.topic.settings.values["unclean.leader.election.enable"] == "true":
            partition.decide(live[0], live[:1])
        else:
            partition.decide(-1, members)

    def move_leader(self, partition: Partition, to: int | None, lose: int, unclean: bool) -> int | None:
        """See `ClusterModel.move_leader`."""
        state = partition.state
        fenced = self._cluster.fenced
        live = [broker_id for broker_id in partition.assignment if broker_id not in fenced]
        members = [broker_id for broker_id in live if unclean or lose or broker_id in state.isr]
        others = [broker_id for broker_id in members if broker_id != state.leader]
        if to is None:
            able = [broker_id for broker_id in others if self._cluster.brokers[broker_id].connected]
            to = self._cluster.rng.choice(able) if able else None
        if to is None or to not in members or to == state.leader:
            return None
        isr: Iterable[int] = state.isr
        if lose or to not in state.isr:
            if lose:
                self._forget_last(partition, to, lose)
            isr = [to]
        partition.decide(to, list(isr))
        return to

    def _forget_last(self, partition: Partition, broker_id: int, count: int) -> None:
        led = partition.best.log
        end = max(led.end - count, led.start)
        for batch in reversed(led.batches):
            if batch.header.base_offset < end <= batch.last:
                end = batch.header.base_offset
                break
        partition.replicas[broker_id].log.truncate(end)

    def announce(self, partition: Partition) -> None:
        """Let every broker hear of the partition's leader, one by one."""
        for broker in self._cluster.brokers.values():
            if broker.alive:
                self._cluster.controller_later(self._delay(), self._tell, partition, broker)

    def _tell(self, partition: Partition, broker: Broker) -> None:
        if broker.paused or broker.cut_off:
            broker.inbox.append(lambda: self._tell(partition, broker))
        elif broker.alive:
            partition.learn(broker.id)

    def announce_configs(self, topic: Topic) -> None:
        """Let every broker hear of a topic's configs as they are now, one by one; one that starts reads them all."""
        for broker in self._cluster.brokers.values():
            self._cluster.controller_later(self._cluster.metadata_delay_s, self._tell_configs, topic, broker)

    def _tell_configs(self, topic: Topic, broker: Broker) -> None:
        if broker.alive and (broker.paused or broker.cut_off or broker.late_configs):
            broker.inbox.append(lambda: self._tell_configs(topic, broker))
        else:
            topic.heard(broker.id)

    def tell_configs(self, broker: Broker) -> None:
        """A broker that has heard of no change of configs (`late_configs`) hears of all."""
        broker.late_configs = False
        if broker.connected:
            heard, broker.inbox = broker.inbox, []
            for call in heard:
                call()

    def _delay(self) -> float:
        return self._cluster.metadata_delay_s * (0.2 + self._cluster.rng.random())

    def _hosted(self, broker: Broker) -> list[Partition]:
        return [
            partition
            for topic in self._cluster.topics.values()
            for partition in topic.partitions
            if broker.id in partition.replicas
        ]

    # -- now and then ---------------------------------------------------------------------------------------------

    def _retain(self, broker: Broker) -> None:
        now_ms = broker.now_ms()
        for partition in self._hosted(broker):
            replica = partition.replicas[broker.id]
            if replica.leading is not None:
                partition.apply_retention(replica, now_ms)

    def _expire(self, broker: Broker) -> None:
        now_ms, after_ms = broker.now_ms(), self._cluster.config_int("producer.id.expiration.ms")
        for partition in self._hosted(broker):
            partition.replicas[broker.id].log.producers.expire(now_ms, after_ms)
