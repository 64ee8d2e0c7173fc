"""Asks both clusters, before a promote begins, whether the copies are as safe as their origins: see
`topics/rules/durability.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gateway.errors import Conflict
from gateway.kafka.connection.errors import NetError
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.sources import Sources
from gateway.state.link_config import parse
from gateway.state.records import LinkRecord, MirrorRecord
from gateway.topics.rules.durability import IN_SYNC, Durable, why_less, why_too_few

_READ_S = 5.0


class Durability:
    """Checks mirror topics that are about to change sides."""

    def __init__(self, sources: Sources, target: ClusterAccess) -> None:
        self._sources = sources
        self._target = target

    async def require(self, link: LinkRecord, mirrors: Sequence[MirrorRecord], *, forced: bool) -> None:
        """Check mirrors of one direction. `forced`: accept a less durable copy, and do not ask the origin.

        Raises:
            Conflict: a copy has too few in-sync replicas, or is less durable than its origin.
            SourceUnreachable, TargetUnreachable: that is unknown.
        """
        home = mirrors[0].is_reverse
        sources = [mirror.source_topic for mirror in mirrors]
        targets = [mirror.mirror_topic for mirror in mirrors]
        asked = (home or not forced, not home or not forced)
        of_source, of_target = await asyncio.gather(
            self._of_source(link, sources if asked[0] else []), self._of_target(targets if asked[1] else [])
        )
        accepted = parse(link.configs).less_durable
        side, origin_side = ("source", "target") if home else ("target", "source")
        for mirror in mirrors:
            ours, theirs = of_target.get(mirror.mirror_topic), of_source.get(mirror.source_topic)
            copy, origin = (theirs, ours) if home else (ours, theirs)
            if copy is None:
                continue
            reason = why_too_few(mirror.mirror_topic, copy, side)
            if not reason and origin is not None and not forced and not accepted.passes(mirror.source_topic):
                reason = why_less(mirror.mirror_topic, origin, copy, origin_side=origin_side, side=side)
            if reason:
                raise Conflict(f"mirror topic '{mirror.mirror_topic}' cannot be promoted: {reason}")

    async def _of_source(self, link: LinkRecord, topics: Sequence[str]) -> Mapping[str, Durable]:
        if not topics:
            return {}
        access = await self._sources.reach(link)
        with source_errors(link.name):
            return await _read(access, topics)

    async def _of_target(self, topics: Sequence[str]) -> Mapping[str, Durable]:
        if not topics:
            return {}
        with target_errors():
            return await _read(self._target, topics)


async def _read(cluster: ClusterAccess, topics: Sequence[str]) -> Mapping[str, Durable]:
    configs: Mapping[str, Mapping[str, str]] = {}
    async with asyncio.timeout(_READ_S):
        found = await cluster.topics(topics)
    with suppress(NetError, TimeoutError, OSError):  # as everywhere before a promote: it can do without configs
        async with asyncio.timeout(_READ_S):
            configs = await cluster.topic_configs(list(found), (IN_SYNC,))
    return {
        name: Durable(_number(configs.get(name, {}).get(IN_SYNC, "")), topic.replication_factor, topic.in_sync)
        for name, topic in found.items()
    }


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
