"""Asks a source whether it is another fleet's target, before what hangs on it is begun; see `rules/topology.py`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from gateway.errors import BadRequest, Conflict
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors
from gateway.operations.records import Records
from gateway.operations.rules.topology import (
    FleetView,
    is_written_by_a_mirror,
    upstream_of,
    why_not_an_origin,
    why_not_mirrored,
)
from gateway.operations.sources import Sources
from gateway.state import link_config
from gateway.state.codec import StateFormatError
from gateway.state.records import LinkRecord, MirrorRecord, Upstream
from gateway.state.store import StoreConflict
from protocol.batch.header import OldFormat

_LOOKED_AT: Final = 16
"""Partitions whose last batch is looked at: one that no mirror has written is enough to tell that it is no copy."""


async def upstream_of_new(source: ClusterAccess, link: LinkRecord, topic: str, target_id: str) -> tuple[Upstream, ...]:
    """From where the source has a topic that is about to be mirrored; empty when it is not known to be mirrored there.

    Raises:
        BadRequest: it would be a loop, or be written behind another fleet's mirror.
        SourceUnreachable, Conflict: the source does not answer, or refuses.
    """
    with source_errors(link.name):
        fleet = await _fleet_view(source, link.name)
    if fleet is None:
        return ()
    written = link_config.parse(link.configs).client_topics.passes(topic)
    if reason := why_not_mirrored(topic, fleet, target_id, written=written):
        raise BadRequest(f"topic '{topic}' cannot be mirrored by link '{link.name}': {reason}")
    return upstream_of(fleet, topic)


async def is_copied(source: ClusterAccess, link: LinkRecord, topic: str, partitions: int) -> bool:
    """Whether a topic is a copy on a source whose fleet is not to be seen, by who has written to it.

    Raises:
        SourceUnreachable, Conflict: the source does not answer, or refuses.
    """
    with source_errors(link.name):
        return is_written_by_a_mirror(await _last_writers(source, topic, partitions))


async def require_origins(
    records: Records, sources: Sources, mirrors: Sequence[MirrorRecord], *, by_writers: bool, note: bool = True
) -> None:
    """The source topics are where records get their order, not copies of another fleet. Notes what has changed of it.

    Args:
        mirrors: of one link.
        by_writers: where the other fleet's records are not to be seen, go by who has written the last batches.
        note: write down what has changed; a dry run does not.

    Raises:
        Conflict: one of them is a copy.
        SourceUnreachable: the source does not answer.
    """
    link = records.link(mirrors[0].link)
    source = await sources.reach(link)
    with source_errors(link.name):
        fleet = await _fleet_view(source, link.name)
        for mirror in mirrors if fleet is None and by_writers else ():
            if is_written_by_a_mirror(await _last_writers(source, mirror.source_topic, len(mirror.starts))):
                raise Conflict(
                    f"mirror topic '{mirror.mirror_topic}': the last batches of '{mirror.source_topic}' on the source "
                    "are a mirror's: promote it there first, to this source; if that is done and nobody has written "
                    "since, use force"
                )
    if fleet is None:
        return
    for mirror in mirrors:
        if reason := why_not_an_origin(mirror.source_topic, fleet):
            raise Conflict(f"mirror topic '{mirror.mirror_topic}': {reason}")
    for mirror in mirrors if note else ():
        await _note(records, mirror, upstream_of(fleet, mirror.source_topic))


async def _fleet_view(source: ClusterAccess, link: str) -> FleetView | None:
    try:
        return await source.fleet_state()
    except StateFormatError as exc:
        raise Conflict(f"the source of link '{link}' is the target of a fleet of a newer version: {exc}") from exc


async def _last_writers(source: ClusterAccess, topic: str, partitions: int) -> list[int]:
    """Of some partitions that have records, until one is found that no mirror has written."""
    ranges = await source.log_ranges(topic, partitions)
    filled = [(partition, end) for partition, (start, end) in enumerate(ranges) if start < end]
    found: list[int] = []
    for partition, end in filled[:_LOOKED_AT]:
        try:
            found.append(await source.last_writer(topic, partition, end))
        except OldFormat:  # no mirror writes that
            return []
        if not is_written_by_a_mirror(found[-1:]):
            break
    return found


async def _note(records: Records, mirror: MirrorRecord, upstream: tuple[Upstream, ...]) -> None:
    """So that our own records tell which batches came from further up. Not needed for anything else."""
    if upstream != mirror.upstream:
        with suppress(StoreConflict):
            await records.store.replace(mirror, replace(mirror, upstream=upstream))
