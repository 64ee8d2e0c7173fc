"""The groups that a topic promote would cut off: they read the topic on the source, and are not promoted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gateway.errors import SourceUnreachable
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors
from gateway.operations.sources import Sources
from gateway.state.link_config import parse
from gateway.state.records import GroupState, LinkRecord
from gateway.state.store import StateStore

_PARALLEL = 8


async def unpromoted_groups(store: StateStore, sources: Sources, link: LinkRecord, topics: Sequence[str]) -> list[str]:
    """Groups with a committed offset on, or a member that reads, one of these source topics.

    Raises:
        SourceUnreachable, Conflict: the source did not answer; names the group, if it is about one.
    """
    access = await sources.reach(link)
    wanted = frozenset(topics)
    parallel = asyncio.Semaphore(_PARALLEL)
    with source_errors(link.name):
        groups = [group for group in await access.group_ids() if not _promoted(store, link, group)]
        reads = await asyncio.gather(*(_reads(access, link.name, group, wanted, parallel) for group in groups))
    return sorted(group for group, reading in zip(groups, reads, strict=True) if reading)


def _promoted(store: StateStore, link: LinkRecord, group: str) -> bool:
    record = store.groups.get((link.name, parse(link.configs).target_group(group)))
    return record is not None and record.state is GroupState.PROMOTED


async def _reads(
    access: ClusterAccess, link: str, group: str, topics: frozenset[str], parallel: asyncio.Semaphore
) -> bool:
    async with parallel:
        try:
            committed = await access.committed_offsets(group)
        except (ClusterUnavailable, TimeoutError) as exc:
            # In a chain the source is other gateways, which answer for a group only once its gate is open there.
            raise SourceUnreachable(
                f"the source of link '{link}' does not say what group '{group}' has read ({exc}); if that is gateways, "
                "the group may be waiting there to be promoted: promote it there first, or use force"
            ) from exc
        if any(topic in topics for topic, _ in committed):
            return True
        return bool((await access.describe_group(group)).topics & topics)
