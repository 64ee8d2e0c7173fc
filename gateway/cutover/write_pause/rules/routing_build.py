"""The routing snapshot from the records: how each mirrored topic is served. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import NamedTuple

from gateway.cutover.write_pause.rules.routing import Routing, TopicRoute
from gateway.cutover.write_pause.rules.write_pause import AT_REST, WritePause
from gateway.kafka.rules.topic_ids import topic_id_bytes
from gateway.state import link_config
from gateway.state.per_partition import WrongLength, of_each_or_none
from gateway.state.records import LinkRecord, MirrorRecord, MirrorState, ProducerEntry


class _Built(NamedTuple):
    """A route, and what it was built of."""

    mirror: MirrorRecord
    link: LinkRecord
    is_readable: bool
    is_retried: bool
    topic_id: bytes
    route: TopicRoute

    def is_of(self, mirror: MirrorRecord, link: LinkRecord, pause: WritePause, readable: bool, retried: bool) -> bool:
        """It would be built alike."""
        is_same = self.mirror is mirror and self.link is link and self.route.pause is pause
        return is_same and self.is_readable == readable and self.is_retried == retried


class RouteBuilder:
    """Builds one snapshot after the other. A route of which nothing has changed is not built again."""

    def __init__(self) -> None:
        self._built: dict[str, _Built] = {}

    def build(
        self,
        links: Mapping[str, LinkRecord],
        mirrors: Iterable[MirrorRecord],
        pauses: Mapping[str, WritePause],
        *,
        readable: AbstractSet[str] = frozenset(),
        retried: AbstractSet[str] = frozenset(),
    ) -> Routing:
        """The snapshot for these records. A mirror whose link is gone has no route.

        Args:
            links: by name.
            mirrors: in any state; a topic has one mirror at most.
            pauses: where the writes of each mirror topic go; it has read these records.
            readable: mirror topics known to be padded, beside the ones whose record says so.
            retried: mirror topics of whose last cutover a producer may still retry a batch
                (`cutover/write_pause/rules/cutovers_seen.py`): the others need no producer table.
        """
        before, built = self._built, dict[str, _Built]()
        for mirror in mirrors:
            topic, link = mirror.mirror_topic, links.get(mirror.link)
            if link is None:
                continue
            of = mirror, link, pauses[topic], topic in readable, topic in retried
            known = before.get(topic)
            built[topic] = known if known is not None and known.is_of(*of) else _built(*of)
        self._built = built
        topics = {topic: one.route for topic, one in built.items()}
        topic_ids = {one.topic_id: topic for topic, one in built.items() if one.topic_id}
        return Routing(topics, topic_ids, _prefixes(links))


def _prefixes(links: Mapping[str, LinkRecord]) -> dict[str, str]:
    configs = {name: link_config.parse(link.configs) for name, link in links.items()}
    return {links[name].source_cluster_id: one.prefix for name, one in configs.items() if one.prefix_groups}


def _built(mirror: MirrorRecord, link: LinkRecord, pause: WritePause, readable: bool, retried: bool) -> _Built:
    topic_id = topic_id_bytes(mirror.mirror_topic_id) if mirror.mirror_topic_id else b""
    return _Built(mirror, link, readable, retried, topic_id, _route(mirror, link, pause, readable, retried))


def _route(mirror: MirrorRecord, link: LinkRecord, pause: WritePause, readable: bool, retried: bool) -> TopicRoute:
    producers: tuple[tuple[ProducerEntry, ...], ...] = ()
    if retried:
        with suppress(WrongLength):  # its writes wait
            producers = of_each_or_none(mirror, mirror.cutover.producers, "producers")
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
    )


def written_on_target(mirror: MirrorRecord) -> bool:
    """True when the topic's writes belong on the target, held or not."""
    return mirror.is_reverse or mirror.state in AT_REST
