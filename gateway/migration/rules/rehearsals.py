"""Which applications of a migration are to rehearse their promote now, by the windows of their file. Pure.

Once in each window: what is remembered is when the last one was begun. One that was refused counts; the next window
comes. A rehearsal begins nothing that a promote would not do at that stage: all mirrors are there, none is FAILED.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gateway.migration.rules.resolve import ApplicationPlan, MigrationPlan
from gateway.migration.rules.windows import opened_at
from gateway.migration.rules.world import World
from gateway.state.records import MirrorState


def to_rehearse(plan: ApplicationPlan, world: World) -> tuple[str, ...]:
    """The source topics whose promote an application would rehearse now: those that are not promoted, if all of them
    are mirrored; else none."""
    mirrors = [(name, world.mirrors.get(name)) for name in plan.topics]
    left = [(name, mirror) for name, mirror in mirrors if mirror is None or not mirror.is_promoted]
    ready = all(one is not None and one.state is MirrorState.ACTIVE and not one.reverse for _, one in left)
    return tuple(name for name, _ in left) if ready else ()


def due(plan: MigrationPlan, world: World, begun_ms: Mapping[str, int]) -> Iterator[tuple[ApplicationPlan, list[str]]]:
    """Applications whose rehearsal is due, with their topics. `begun_ms`: when the last one of each was begun."""
    for one in plan.applications:
        opened = opened_at(one.application.rehearsals, world.now)
        if opened is None or begun_ms.get(one.application.name, -1) >= opened.timestamp() * 1000:
            continue
        if topics := to_rehearse(one, world):
            yield one, list(topics)
