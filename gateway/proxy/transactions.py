"""The transactional producers that this gateway serves: who they are, and what of theirs a fence must wait for.

Pure decisions are in `domain/transactional_producers.py`. Whatever changes a producer runs under its lock, so one
coordinator request of a transactional id is under way at a time; clients send no more than one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

import structlog

from gateway.domain.routing import Phase, Routing, RoutingTable, TopicRoute
from gateway.domain.transactional_ids import OWN, TARGET, Place, ProducerIdentity, ProducerRecord, id_at
from gateway.domain.transactional_producers import Ended, Fence, Standing, Transaction, TransactionalProducer
from gateway.net.errors import NetError
from gateway.proxy.identities import Identities
from gateway.proxy.places import Lost, Places, Refused, SeenTransaction, Unseen
from protocol.errors import ErrorCode

_LOOK_AGAIN_S = 0.1
_DEFAULT_TIMEOUT_MS = 60_000
_log = structlog.get_logger("lockgate.proxy")


class Transactions:
    """See the module. `clock`: monotonic seconds. `alone`: no other gateway is in the fleet now."""

    def __init__(
        self,
        routing: RoutingTable,
        places: Places,
        identities: Identities,
        clock: Callable[[], float],
        alone: Callable[[], bool] = lambda: True,
    ) -> None:
        self.places = places
        self._alone = alone
        self._routing = routing
        self._identities = identities
        self._clock = clock
        self._producers: dict[str, TransactionalProducer] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._closed: set[str] = set()  # fenced topics whose fence was acknowledged
        self._changed = asyncio.Event()
        routing.subscribe(self._routing_changed)

    def lock(self, transactional_id: str) -> asyncio.Lock:
        """Held by whoever changes the producer."""
        return self._locks.setdefault(transactional_id, asyncio.Lock())

    # -- who it is -----------------------------------------------------------------------------------------

    def known(self, transactional_id: str, client: ProducerIdentity) -> TransactionalProducer | None:
        """The producer, when nothing has to be asked for it."""
        found = self._producers.get(transactional_id)
        return found if found is not None and found.client == client else None

    async def identify(
        self, transactional_id: str, client: ProducerIdentity, came_by: int | None = None, *, to_end: bool = False
    ) -> TransactionalProducer:
        """The producer that a client says it is. The caller holds its lock.

        Args:
            came_by: the connection, of a request that clients send to the coordinator of their transactions.
            to_end: it wants to end its transaction. Behind a load balancer it may have begun it, or ended the one
                that is known here, through another gateway and come back by a connection that it kept: a coordinator
                that is asked to repeat an end says yes, and the open transaction would be left to its timeout.

        Raises:
            Refused: it was fenced, or is no such producer; or nobody can tell now.
        """
        found = self.known(transactional_id, client)
        if found is None:
            found = await self._find(transactional_id, client)
        elif came_by is not None and (
            found.came_by != came_by or (to_end and (found.open is None or not self._alone()))
        ):
            await self.look_again(found)
        if came_by is not None:
            found.came_by = came_by
        return found

    async def look_again(self, producer: TransactionalProducer) -> None:
        """Another gateway may have served the producer meanwhile: ask its coordinators. The caller holds its lock.

        A cluster from before Kafka 3.0 cannot tell; then what is known here counts. Raises as `identify`.
        """
        if producer.in_transit:
            return
        with _answered():
            record = await self._identities.current(producer.transactional_id)
        _require_not_fenced(producer.transactional_id, producer.client, record)
        known = record if record is not None and record.client == producer.client else producer.record
        found = TransactionalProducer(producer.transactional_id, producer.client, known)
        with suppress(Unseen):
            await self._find_transaction(found)
            if not producer.in_transit:
                producer.learn(found)
                self.changed()

    async def _find(self, transactional_id: str, client: ProducerIdentity) -> TransactionalProducer:
        with _answered():
            record = await self._identities.current(transactional_id)
        if record is None or record.client != client:
            record = await self._record_from_target(transactional_id, client, record)
        producer = TransactionalProducer(transactional_id, client, record)
        try:
            await self._find_transaction(producer)
        except Unseen as exc:
            why = f"{exc} cannot tell whether {transactional_id!r} has a transaction"
            raise Refused(ErrorCode.PRODUCER_FENCED, why) from exc
        self._producers[transactional_id] = producer
        return producer

    async def _record_from_target(
        self, transactional_id: str, client: ProducerIdentity, record: ProducerRecord | None
    ) -> ProducerRecord:
        """The record of a producer that was initialised while no topic was mirrored: the target knows whether it is."""
        _require_not_fenced(transactional_id, client, record)
        try:
            seen = await self.places.describe(OWN, transactional_id)
        except Unseen:
            return ProducerRecord(transactional_id, client, _DEFAULT_TIMEOUT_MS)
        if seen is None or seen.identity.producer_id != client.producer_id:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{transactional_id!r}: not its producer id")
        if seen.identity.epoch != client.epoch:
            raise Refused(ErrorCode.PRODUCER_FENCED, f"{transactional_id!r}: a newer instance was initialised")
        return ProducerRecord(transactional_id, client, seen.timeout_ms)

    async def _find_transaction(self, producer: TransactionalProducer) -> None:
        """What a producer has open that this process has not seen begin: asked of the coordinators.

        Raises:
            Unseen: a source cannot tell.
        """
        for place in (OWN, *filter(self.places.has, producer.record.places)):
            identity = producer.record.at(place)
            try:
                seen = await self.places.describe(place, producer.transactional_id)
            except Unseen:
                if place == OWN:
                    continue
                raise
            if seen is None:
                continue
            topics = self._names(place, seen.topics)
            if seen.identity == identity and seen.is_open:
                producer.open = Transaction(place, self._clock(), set(topics), confirmed=True)
            elif seen.is_ending or seen.identity != identity:
                producer.last = Ended(place, frozenset(topics), settled=not seen.is_ending)
            elif seen.state.startswith("Complete"):
                producer.completed[place] = seen.state == "CompleteCommit"

    def _names(self, place: Place, topics: Iterable[str]) -> list[str]:
        """Topics of a place by the names that clients of the gateway use."""
        if place.cluster == TARGET:
            return list(topics)
        routes = self._routing.current.topics.values()
        mirrored = {r.source_topic: r.mirror_topic for r in routes if self._cluster_of(r) == place.cluster}
        return [mirrored.get(topic, topic) for topic in topics]

    # -- identities elsewhere ------------------------------------------------------------------------------

    async def identity_at(self, producer: TransactionalProducer, place: Place) -> ProducerIdentity:
        """Its identity at a place, obtained there when it has none yet. The caller holds its lock.

        Raises:
            Refused, Lost: it could not be obtained, or not be kept.
        """
        found = producer.record.at(place)
        if found is None:
            old = producer.record
            found = await self.places.init(place, producer.transactional_id, old.timeout_ms, None)
            record = ProducerRecord(old.transactional_id, old.client, old.timeout_ms, {**old.places, place: found})
            with _answered():
                kept = await self._identities.keep(record)
            _require_newest(kept, old.client)
            producer.record = kept
        return producer.record.at(place) or found

    async def has_newer(self, producer: TransactionalProducer, place: Place, code: int) -> bool:
        """True when a place fences the producer only because another gateway, late, has initialised it there too.

        The identity that it got is the producer's then. The caller holds the lock.
        """
        if code not in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
            return False
        used, record = producer.record.at(place), await self.kept(producer.transactional_id)
        if used is None or record is None or record.client != producer.client:
            return False
        found = record.at(place)
        if found is None or found.producer_id != used.producer_id or found.epoch <= used.epoch:
            return False
        producer.record = record
        return True

    async def initialised(self, record: ProducerRecord, came_by: int) -> None:
        """Keep a record and begin anew with it: what there was is over. The caller holds the lock.

        Raises:
            Refused: it could not be kept.
        """
        with _answered():
            kept = await self._identities.keep(record)
        _require_newest(kept, record.client)
        name = record.transactional_id
        self._producers[name] = begun = TransactionalProducer(name, kept.client, kept)
        begun.came_by = came_by
        self.changed()

    async def kept(self, transactional_id: str) -> ProducerRecord | None:
        """The record in force. Raises Refused when it cannot be read."""
        with _answered():
            return await self._identities.current(transactional_id)

    def sources_written(self) -> set[str]:
        """The sources that are written to now, for some topic; one that was not reached yet is left out."""
        routes = self._routing.current.topics.values()
        return {self._cluster_of(route) for route in routes if route.phase is not Phase.SWITCHED} - {TARGET}

    def sources(self) -> set[str]:
        """The sources of all mirrored topics."""
        return {self._cluster_of(route) for route in self._routing.current.topics.values()} - {TARGET}

    def _cluster_of(self, route: TopicRoute) -> str:
        """The route's source; TARGET, which no source is, when it was not reached yet."""
        try:
            return self.places.cluster_of(route.link)
        except Refused:
            return TARGET

    def standing(self, topics: Iterable[str]) -> Mapping[str, Standing]:
        """Where topics are written now.

        Raises:
            Refused: on a source that was not reached yet.
        """
        routes = self._routing.current.topics
        return {topic: self._standing(routes.get(topic)) for topic in topics}

    def _standing(self, route: TopicRoute | None) -> Standing:
        if route is None:
            return Standing(TARGET)
        if route.phase is Phase.FENCED:  # `counted`: the fence of a way home, until then it is written on the target
            fence = Fence.CLOSED if route.mirror_topic in self._closed else Fence.CLOSING
            return Standing(TARGET if route.counted else self.places.cluster_of(route.link), fence)
        return Standing(TARGET if route.phase is Phase.SWITCHED else self.places.cluster_of(route.link))

    def generation(self) -> int:
        """How often the writes of any topic have gone home, all of them together.

        Not the highest one of a topic: a topic that goes home after another one did must be met under a producer id
        that it has not seen on either cluster, and before its own way home it has seen the other one's.
        """
        return sum(route.generation for route in self._routing.current.topics.values())

    # -- fences --------------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Something of a producer has changed: whoever waits looks again."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait, without a bound of its own, until a condition on producers holds."""
        while not condition():
            await self._changed.wait()

    async def adopt(self, topic: str) -> None:
        """Learn of transactions that were begun through another process and may have the topic: a fence waits for them.

        Those of producers that do not use the gateway are none of its own.
        """
        route = self._routing.current.topics.get(topic)
        if route is None:
            return
        with suppress(NetError, Refused, Lost):
            cluster = TARGET if route.counted else self.places.cluster_of(route.link)
            unended = await self.places.unended(Place(cluster))
            if not unended:
                return
            for record in await self._identities.all():
                mine = any(
                    id_at(record.transactional_id, p) in unended for p in (OWN, *record.places) if p.cluster == cluster
                )
                if mine and self.known(record.transactional_id, record.client) is None:
                    async with self.lock(record.transactional_id):
                        await self.identify(record.transactional_id, record.client)

    def blocking(self, topic: str) -> list[TransactionalProducer]:
        """The producers that a fence of the topic must wait for."""
        routes = self._routing.current.topics.values()
        closing = {r.mirror_topic for r in routes if r.phase is Phase.FENCED and r.mirror_topic not in self._closed}
        return [producer for producer in self._producers.values() if producer.holds_up(topic, closing)]

    def held_up_by(self, topic: str) -> str:
        """The transaction that has been open longest, of those that a fence of the topic must wait for; '' if none."""
        blocking = self.blocking(topic)
        opened = [(p.open.since, p) for p in blocking if p.open is not None]
        if opened:
            since, producer = min(opened, key=lambda each: each[0])
            return (
                f"the end of a transaction of {producer.transactional_id!r}, open for {self._clock() - since:.1f} s"
                + (f", and of {len(opened) - 1} more" if len(opened) > 1 else "")
            )
        return f"the markers of the last transaction of {blocking[0].transactional_id!r}" if blocking else ""

    def close(self, topic: str) -> None:
        """The topic's fence is acknowledged: no transaction takes it in until the fence has ended."""
        self._closed.add(topic)

    async def wait_for_end(self, topic: str) -> bool:
        """Wait a little for the transactions that hold up a fence, having asked their coordinators about them.

        True when a marker may still come and nobody can tell: on a cluster from before Kafka 3.0.
        """
        untold = False
        for producer in self.blocking(topic):
            try:
                await self._look_at(producer)
            except Unseen:
                if producer.open is None:
                    producer.settle()
                    untold = True
            except (Refused, Lost, NetError) as exc:
                _log.debug("a transaction could not be looked at", reason=str(exc))
        if self.blocking(topic):
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN_S):
                    await self._changed.wait()
        return untold

    async def _look_at(self, producer: TransactionalProducer) -> None:
        """Its client may be gone, its end unanswered: the coordinator knows what became of the transaction."""
        if producer.in_transit or producer.in_flight:
            return
        async with self.lock(producer.transactional_id):
            place = producer.end_place(commit=True)
            seen = await self.places.describe(place, producer.transactional_id)
            if not producer.in_transit and not producer.in_flight and producer.end_place(commit=True) == place:
                self._settle(producer, seen, producer.record.at(place))

    @staticmethod
    def _settle(
        producer: TransactionalProducer, seen: SeenTransaction | None, identity: ProducerIdentity | None
    ) -> None:
        if seen is not None and seen.is_open and seen.identity == identity:
            if producer.open is not None:
                producer.confirm()
            else:
                producer.settle()
        elif seen is not None and seen.is_ending:
            producer.ended()
        else:
            producer.ended(settled=True)
            producer.settle()

    def _routing_changed(self, routing: Routing) -> None:
        self._closed = {
            topic for topic in self._closed if topic in routing.topics and routing.topics[topic].phase is Phase.FENCED
        }


def _require_not_fenced(transactional_id: str, client: ProducerIdentity, record: ProducerRecord | None) -> None:
    same = record is not None and record.client.producer_id == client.producer_id
    if record is not None and same and record.client.epoch > client.epoch:
        raise Refused(ErrorCode.PRODUCER_FENCED, f"{transactional_id!r}: a newer instance was initialised")


def _require_newest(kept: ProducerRecord, client: ProducerIdentity) -> None:
    if kept.client != client:
        raise Refused(
            ErrorCode.PRODUCER_FENCED, f"{kept.transactional_id!r}: a newer instance was initialised meanwhile"
        )


@contextmanager
def _answered() -> Iterator[None]:
    """What goes wrong with the kept identities is answered as a coordinator that is not there yet."""
    try:
        yield
    except NetError as exc:
        raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(exc)) from exc
