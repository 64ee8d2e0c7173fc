"""The routing snapshot from the records: how each mirrored topic is served. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from gateway.cutover.write_pause.rules.routing import Routing, TopicRoute, moved_with
from gateway.cutover.write_pause.rules.write_pause import AT_REST, WritePause, WritePhase
from gateway.kafka.rules.names import topic_id_bytes
from gateway.state import link_config
from gateway.state.failback_records import FailbackEpochRecord
from gateway.state.per_partition import WrongLength, tables_of
from gateway.state.producer_entries import ProducerEntry
from gateway.state.promote_sets import groups_of
from gateway.state.records import LinkRecord, MirrorRecord, MirrorState

_NO_FLAGS: Final = (True, False, False)  # readable, not retried, not recent


class _Built(NamedTuple):
    """A route, its inputs, and its published parts. `link`: None for a deleted mirror."""

    mirror: MirrorRecord | FailbackEpochRecord
    link: LinkRecord | None
    is_readable: bool
    is_retried: bool
    is_recent: bool
    topic_id: bytes
    route: TopicRoute
    phase: WritePhase

    def is_of(
        self,
        mirror: MirrorRecord | FailbackEpochRecord,
        link: LinkRecord | None,
        pause: WritePause,
        flags: tuple[bool, bool, bool],
    ) -> bool:
        """True when these inputs would build the same route."""
        is_same = self.mirror is mirror and self.link is link and self.route.pause is pause
        return is_same and (self.is_readable, self.is_retried, self.is_recent) == flags

    @property
    def published(self) -> tuple[TopicRoute, bytes, WritePhase, bool]:
        """The parts that a snapshot contains."""
        return self.route, self.topic_id, self.phase, self.is_recent


class Routes:
    """The routes of all mirror topics, kept topic by topic: an unchanged one costs only its entry in the copy.

    Attributes:
        changed: the topics whose route, topic id or phase has changed since the last snapshot, or is gone.
    """

    def __init__(self) -> None:
        self._built: dict[str, _Built] = {}
        self._topics: dict[str, TopicRoute] = {}
        self._topic_ids: dict[bytes, str] = {}
        self._intercepted: set[str] = set()
        self._unreadable: set[str] = set()
        self._recent: set[str] = set()
        self._groups: dict[str, tuple[str, ...]] = {}
        self._unmirrored: set[str] = set()
        self._failbacks: dict[str, int] = {}
        self._all_failbacks = 0
        self.changed: set[str] = set()

    def phase(self, topic: str) -> WritePhase | None:
        """The topic's phase when its route was last built; None without a route."""
        built = self._built.get(topic)
        return None if built is None else built.phase

    def put(
        self,
        mirror: MirrorRecord,
        link: LinkRecord,
        pause: WritePause,
        *,
        readable: bool,
        retried: bool,
        recent: bool = False,
    ) -> None:
        """Build a topic's route from its record, its link, and the other inputs.

        Args:
            pause: where its writes go; it has read the record.
            readable: the topic is known to be padded, whatever the record says.
            retried: a producer may still retry a batch from before the last cutover
                (`cutover/write_pause/rules/cutovers_seen.py`); otherwise no producer table is needed.
            recent: a client may still send the end of a transaction from before the last cutover.
        """
        flags = readable, retried, recent
        topic, known = mirror.mirror_topic, self._built.get(mirror.mirror_topic)
        if known is None or not known.is_of(mirror, link, pause, flags):
            self._put(topic, known, _built(mirror, link, pause, flags))
        elif known.phase is not pause.phase:
            self._put(topic, known, known._replace(phase=pause.phase))

    def put_unmirrored(self, kept: FailbackEpochRecord, pause: WritePause) -> None:
        """Route a topic whose mirror was deleted, and whose producers stay in its failback epoch. `pause`: always
        switched to the target."""
        topic, known = kept.mirror_topic, self._built.get(kept.mirror_topic)
        if known is None or not known.is_of(kept, None, pause, _NO_FLAGS):
            self._put(topic, known, _unmirrored(kept, pause))

    def count(self, topic: str, failback_epoch: int) -> None:
        """Note how often the topic's writes have failed back, by its records, not by a create in progress."""
        if before := self._failbacks.pop(topic, 0):
            self._all_failbacks -= before
        if failback_epoch:
            self._failbacks[topic] = failback_epoch
            self._all_failbacks += failback_epoch
        if before != failback_epoch:
            self.changed.add(topic)

    def _put(self, topic: str, known: _Built | None, built: _Built) -> None:
        if known is None or built.published != known.published:
            self.changed.add(topic)
        self._keep(topic, known, built)

    def drop(self, topic: str) -> None:
        """Remove the route of a topic without a mirror, or without its link."""
        known = self._built.pop(topic, None)
        if known is None:
            return
        self.changed.add(topic)
        del self._topics[topic]
        if self._topic_ids.get(known.topic_id) == topic:
            del self._topic_ids[known.topic_id]
        self._unmirrored.discard(topic)
        self._intercepted.discard(topic)
        self._unreadable.discard(topic)
        self._recent.discard(topic)
        self._groups.pop(topic, None)

    def _keep(self, topic: str, known: _Built | None, built: _Built) -> None:
        self._built[topic], self._topics[topic] = built, built.route
        if known is not None and known.topic_id != built.topic_id and self._topic_ids.get(known.topic_id) == topic:
            del self._topic_ids[known.topic_id]
        if built.topic_id:
            self._topic_ids[built.topic_id] = topic
        _put(self._unmirrored, topic, is_in=not built.route.is_mirrored)
        _put(self._intercepted, topic, is_in=not built.route.passes)
        _put(self._unreadable, topic, is_in=not built.route.readable)
        _put(self._recent, topic, is_in=built.is_recent)
        if built.route.groups:
            self._groups[topic] = built.route.groups
        else:
            self._groups.pop(topic, None)

    def snapshot(self, links: Mapping[str, LinkRecord], forgotten_failbacks: int = 0) -> Routing:
        """A snapshot of all routes. Later changes belong to the next one.

        `forgotten_failbacks`: the sum of failback epochs of topics that have no route any more.
        """
        self.changed = set()
        return Routing(
            dict(self._topics),
            dict(self._topic_ids),
            prefixes(links),
            intercepts_produce=bool(self._intercepted),
            unreadable=bool(self._unreadable),
            moved_with=moved_with(self._groups),
            ends_repeated=bool(self._recent),
            failbacks=self._all_failbacks + forgotten_failbacks,
            unmirrored=len(self._unmirrored),
        )


def _put(topics: set[str], topic: str, *, is_in: bool) -> None:
    if is_in:
        topics.add(topic)
    else:
        topics.discard(topic)


def prefixes(links: Mapping[str, LinkRecord]) -> dict[str, str]:
    """Source cluster id -> the prefix of the link's mirror groups."""
    configs = {name: link_config.parse(link.configs) for name, link in links.items()}
    return {links[name].source_cluster_id: one.prefix for name, one in configs.items() if one.prefix_groups}


def _built(mirror: MirrorRecord, link: LinkRecord, pause: WritePause, flags: tuple[bool, bool, bool]) -> _Built:
    readable, retried, _ = flags
    topic_id = topic_id_bytes(mirror.mirror_topic_id) if mirror.mirror_topic_id else b""
    route = _route(mirror, link, pause, readable, retried)
    return _Built(mirror, link, *flags, topic_id, route, pause.phase)


def _unmirrored(kept: FailbackEpochRecord, pause: WritePause) -> _Built:
    topic_id = topic_id_bytes(kept.mirror_topic_id) if kept.mirror_topic_id else b""
    route = TopicRoute(
        link="",
        mirror_topic=kept.mirror_topic,
        source_topic=kept.source_topic,
        pause=pause,
        failback_epoch=kept.epoch,
    )
    return _Built(kept, None, *_NO_FLAGS, topic_id, route, pause.phase)


def _route(mirror: MirrorRecord, link: LinkRecord, pause: WritePause, readable: bool, retried: bool) -> TopicRoute:
    producers: tuple[Sequence[ProducerEntry], ...] = ()
    if retried:
        with suppress(WrongLength):  # then its writes wait
            producers = tables_of(mirror)
    config = link_config.parse(link.configs)
    return TopicRoute(
        link=mirror.link,
        mirror_topic=mirror.mirror_topic,
        source_topic=mirror.source_topic,
        pause=pause,
        ack=config.ack,
        readable=written_on_target(mirror) or mirror.readable or readable,
        producers=producers,
        failback_epoch=mirror.failback.epoch,
        counted=mirror.is_reverse or mirror.state is MirrorState.PENDING_SYNCHRONIZE,
        goes_on=not mirror.cutover.not_mirrored,
        by_clients=config.client_topics.passes(mirror.source_topic),
        groups=groups_of(mirror),
    )


def written_on_target(mirror: MirrorRecord) -> bool:
    """True when the topic's writes belong on the target, held or not."""
    return mirror.is_reverse or mirror.state in AT_REST
