"""The routing snapshot from the records: how each mirrored topic is served. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress

from gateway.cutover.write_pause.rules.routing import Routing, TopicRoute
from gateway.cutover.write_pause.rules.write_pause import AT_REST, WritePause
from gateway.kafka.rules.topic_ids import topic_id_bytes
from gateway.state import link_config
from gateway.state.per_partition import WrongLength, of_each_or_none
from gateway.state.records import LinkRecord, MirrorRecord, MirrorState, ProducerEntry


def routing_from(
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
        settled: mirror topics known to be padded, beside the ones whose record says so.
        retried: mirror topics of whose last cutover a producer may still retry a batch
        (`cutover/write_pause/rules/cutovers_seen.py`): the
            others need no producer table.
    """
    topics: dict[str, TopicRoute] = {}
    topic_ids: dict[bytes, str] = {}
    for mirror in mirrors:
        link = links.get(mirror.link)
        if link is None:
            continue
        topics[mirror.mirror_topic] = _route(mirror, link, pauses[mirror.mirror_topic], readable, retried)
        if mirror.mirror_topic_id:
            topic_ids[topic_id_bytes(mirror.mirror_topic_id)] = mirror.mirror_topic
    configs = {name: link_config.parse(link.configs) for name, link in links.items()}
    prefixes = {links[name].source_cluster_id: one.prefix for name, one in configs.items() if one.prefix_groups}
    return Routing(topics, topic_ids, prefixes)


def _route(
    mirror: MirrorRecord, link: LinkRecord, pause: WritePause, readable: AbstractSet[str], retried: AbstractSet[str]
) -> TopicRoute:
    producers: tuple[tuple[ProducerEntry, ...], ...] = ()
    if mirror.mirror_topic in retried:
        with suppress(WrongLength):  # its writes wait
            producers = of_each_or_none(mirror, mirror.cutover.producers, "producers")
    config = link_config.parse(link.configs)
    return TopicRoute(
        link=mirror.link,
        mirror_topic=mirror.mirror_topic,
        source_topic=mirror.source_topic,
        pause=pause,
        ack=config.ack,
        readable=written_on_target(mirror) or mirror.readable or mirror.mirror_topic in readable,
        producers=producers,
        failback_epoch=mirror.failback.epoch,
        counted=mirror.is_reverse or mirror.state is MirrorState.PENDING_SYNCHRONIZE,
        goes_on=not mirror.cutover.not_mirrored,
        by_clients=config.client_topics.passes(mirror.source_topic),
    )


def written_on_target(mirror: MirrorRecord) -> bool:
    """True when the topic's writes belong on the target, held or not."""
    return mirror.is_reverse or mirror.state in AT_REST
