"""The routing snapshot from the records: which mirrored topic is forwarded, held or switched. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from gateway.domain import link_config
from gateway.domain.per_partition import WrongLength, of_each_or_none
from gateway.domain.records import LinkRecord, MirrorRecord, MirrorState, ProducerEntry
from gateway.domain.routing import Phase, Routing, TopicRoute
from gateway.domain.topic_configs import stamps_itself
from gateway.domain.topic_ids import topic_id_bytes

_AT_REST = (MirrorState.STOPPED, MirrorState.PENDING_SYNCHRONIZE)


def routing_from(
    links: Mapping[str, LinkRecord],
    mirrors: Iterable[MirrorRecord],
    *,
    fenced: AbstractSet[str] = frozenset(),
    settled: AbstractSet[str] = frozenset(),
    retried: AbstractSet[str] = frozenset(),
) -> Routing:
    """The snapshot for these records. A mirror whose link is gone has no route.

    Args:
        links: by name.
        mirrors: in any state; a topic has one mirror at most.
        fenced: mirror topics whose writes a running promote holds now.
        settled: mirror topics known to be padded, beside the ones whose record says so.
        retried: mirror topics of whose last flip a producer may still retry a batch (`domain/flips_seen.py`): the
            others need no producer table.
    """
    topics: dict[str, TopicRoute] = {}
    topic_ids: dict[bytes, str] = {}
    for mirror in mirrors:
        link = links.get(mirror.link)
        if link is None:
            continue
        topics[mirror.mirror_topic] = _route(mirror, link, fenced, settled, retried)
        if mirror.mirror_topic_id:
            topic_ids[topic_id_bytes(mirror.mirror_topic_id)] = mirror.mirror_topic
    configs = {name: link_config.parse(link.configs) for name, link in links.items()}
    prefixes = {links[name].source_cluster_id: one.prefix for name, one in configs.items() if one.prefix_groups}
    return Routing(topics, topic_ids, prefixes)


def _route(
    mirror: MirrorRecord,
    link: LinkRecord,
    fenced: AbstractSet[str],
    settled: AbstractSet[str],
    retried: AbstractSet[str],
) -> TopicRoute:
    phase = phase_of(mirror, is_fenced=mirror.mirror_topic in fenced)
    producers: tuple[tuple[ProducerEntry, ...], ...] = ()
    if mirror.mirror_topic in retried:
        try:
            producers = of_each_or_none(mirror, "producers")
        except WrongLength:
            phase = Phase.FENCED  # which writes are retries is not known: they wait for as long as some may be
    return TopicRoute(
        link=mirror.link,
        mirror_topic=mirror.mirror_topic,
        source_topic=mirror.source_topic,
        phase=phase,
        ack=link_config.parse(link.configs).ack,
        fence_epoch=mirror.fence_epoch,
        settled=written_on_target(mirror) or mirror.settled or mirror.mirror_topic in settled,
        producers=producers,
        generation=mirror.generation,
        counted=mirror.is_reverse or mirror.state is MirrorState.PENDING_SYNCHRONIZE,
    )


def phase_of(mirror: MirrorRecord, *, is_fenced: bool) -> Phase:
    """Where a topic is written.

    A fence says nothing while nobody can flip: STOPPED, and the step after it. Only the first writes to a topic that
    shall give them its own timestamps wait until it does.
    """
    if mirror.state in _AT_REST:
        waits = is_fenced and mirror.state is MirrorState.STOPPED and stamps_itself(mirror.restore_configs)
        return Phase.FENCED if waits else Phase.SWITCHED
    if is_fenced:
        return Phase.FENCED
    return Phase.SWITCHED if mirror.is_reverse else Phase.FORWARD


def written_on_target(mirror: MirrorRecord) -> bool:
    """True when the topic's writes belong on the target, held or not."""
    return mirror.is_reverse or mirror.state in _AT_REST
