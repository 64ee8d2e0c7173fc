"""The engine runs the links and mirrors of the records, whatever ran before and whoever started it.

What runs is asked of the engine, never remembered beside it. A gateway that led without hearing that another one leads
has mirrors that it started itself, of records that are others by now: with fewer partitions, of the mirror period
before, of a topic that is stopped or deleted; and links, of a source that another link of that name has no more. What
runs is left as it is when it is started again, so each of these would stay for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping

from gateway.mirror.interface import MirrorEngine
from gateway.state.mirror_states import is_mirroring
from gateway.state.records import Deletion, LinkRecord, MirrorRecord


def runs(record: MirrorRecord) -> bool:
    """The engine is to run it."""
    return record.created and is_mirroring(record.state) and record.deletion is Deletion.NONE


async def run_links_by_records(engine: MirrorEngine, links: Callable[[], Mapping[str, LinkRecord]]) -> None:
    """Stop what runs for a link that is gone, or another one by now, with its mirrors; start the links that do not run.

    One whose configs were changed goes on with the new ones.

    Args:
        links: by name, as they are now: asked again after the wait.
    """
    wanted = links()
    stale = [name for name, link in engine.started_links().items() if not is_same_link(link, wanted.get(name))]
    await asyncio.gather(*(engine.stop_link(name) for name in stale))
    for name, link in list(links().items()):
        started = engine.started_links().get(name)
        if started is None:
            await engine.start_link(link)
        elif started != link:
            engine.update_link(link)


def is_same_link(one: LinkRecord, other: LinkRecord | None) -> bool:
    """Whatever was changed of it since: an id is never given again."""
    return other is not None and one.link_id == other.link_id


async def run_by_records(engine: MirrorEngine, records: Callable[[], Iterable[MirrorRecord]]) -> None:
    """Stop what runs and is not, or not so, in the records, and wait for its appends; then start what does not run.

    Args:
        records: as they are now: asked again after the wait. Their links are started.
    """
    wanted = _running(records())
    stale = [key for key, record in engine.started().items() if key not in wanted or _is_another(record, wanted[key])]
    # Together: each waits for what it has in flight, and a cluster that is silent answers none of them.
    await asyncio.gather(*(engine.stop_mirror(*key) for key in stale))
    started = engine.started()
    for key, record in _running(records()).items():
        if key not in started:
            engine.start_mirror(record)


async def run_topics_by_records(
    engine: MirrorEngine, topics: Collection[str], record_of: Callable[[str], MirrorRecord | None]
) -> None:
    """As `run_by_records`, of these topics alone: what a record costs does not grow with the others.

    Args:
        record_of: of a topic, as it is now; None without one: asked again after the wait.
    """
    links = tuple(engine.started_links())
    stale = []
    for link, topic in ((link, topic) for topic in topics for link in links):
        found, wanted = engine.started_as(link, topic), record_of(topic)
        if found is not None and not (
            wanted is not None and wanted.link == link and runs(wanted) and not _is_another(found, wanted)
        ):
            stale.append((link, topic))
    await asyncio.gather(*(engine.stop_mirror(*key) for key in stale))
    for record in map(record_of, topics):
        if record is None or not runs(record) or record.link not in links:
            continue
        if engine.started_as(record.link, record.mirror_topic) is None:
            engine.start_mirror(record)


async def run_as(engine: MirrorEngine, record: MirrorRecord) -> None:
    """A mirror that runs, and not as its record says now, begins anew. One that does not run is left alone."""
    found = engine.started_as(record.link, record.mirror_topic)
    if found is not None and _is_another(found, record):
        await engine.stop_mirror(record.link, record.mirror_topic)
        engine.start_mirror(record)


def _running(records: Iterable[MirrorRecord]) -> dict[tuple[str, str], MirrorRecord]:
    return {(record.link, record.mirror_topic): record for record in records if runs(record)}


def _is_another(one: MirrorRecord, other: MirrorRecord) -> bool:
    """Another mirror period, more partitions, or one that had failed and was set going again."""
    return _what(one) != _what(other)


def _what(record: MirrorRecord) -> tuple[object, ...]:
    failback = record.failback
    return record.mirror_id, failback.epoch, failback.direction, record.starts, record.source_topic_id, record.repairs
