"""What a promote would meet: what blocks it, who has not moved, and how long the mirror needs. Nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.errors import BadRequest, ControlError
from gateway.mirror.interface import PartitionStatus
from gateway.operations.partners import TopicPromoter
from gateway.operations.records import Records
from gateway.state.link_config import parse
from gateway.state.mirror_states import WrongState
from gateway.state.per_partition import WrongLength
from gateway.state.records import MirrorDirection
from gateway.topics.mirrors import Mirrors, MirrorView

REFUSALS: Final = (ControlError, WrongState, WrongLength)
"""What an operation on mirror topics raises instead of beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotePlan:
    """One topic of the set. `waits_for`: what the promote would wait for. `eta_s`: about how long the mirror needs to
    be level, 0 when it is, None while it is not known."""

    view: MirrorView
    waits_for: Sequence[str]
    eta_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoteSetPlan:
    """`blockers`: what the promote would be refused for, one line each; empty: it would begin."""

    topics: Sequence[PromotePlan]
    blockers: Sequence[str]


class PromotePlanner:
    """Asks what a promote asks, and is the only one that does: `/v3` and Confluent's paths are answered from here."""

    def __init__(self, records: Records, mirrors: Mirrors, promoter: TopicPromoter) -> None:
        self._records = records
        self._mirrors = mirrors
        self._promoter = promoter

    async def refusals(
        self,
        link: str,
        topics: Sequence[str],
        *,
        groups: Sequence[str] = (),
        force: bool = False,
        direction: MirrorDirection = MirrorDirection.FORWARD,
    ) -> Mapping[str, Exception]:
        """Topic -> why it would not be promoted, in the order in which they were named; without an entry it would be.

        `groups`: that are to change sides with them. `direction`: REVERSE is a promote that goes home. A topic that
        cannot be promoted by itself is left out of the set; what refuses the set is told of each of it.

        Raises:
            NotFound: no such link. Of a topic that does not exist its own entry says so.
        """
        self._records.link(link)
        alone: dict[str, Exception] = {}
        names, fit = list(dict.fromkeys(topics)), []
        for name in names:
            try:
                self._mirrors.require_promotable(link, name, force=force, direction=direction)
            except REFUSALS as exc:
                alone[name] = exc
            else:
                fit.append(name)
        together: dict[str, Exception] = {}
        try:
            if fit:
                await self._promoter.check(link, fit, groups=groups, force=force)
        except REFUSALS as exc:
            together = dict.fromkeys(fit, exc)
        found = {**alone, **together}
        return {name: found[name] for name in names if name in found}

    async def plan(
        self,
        link: str,
        topics: Sequence[str],
        *,
        groups: Sequence[str] = (),
        force: bool = False,
        direction: MirrorDirection = MirrorDirection.FORWARD,
    ) -> PromoteSetPlan:
        """Of a promote of these topics as one set, and of these groups with them.

        Raises:
            BadRequest: no topic. NotFound: no such link, or mirror.
        """
        if not topics:
            raise BadRequest("no topic to promote was named")
        names = list(dict.fromkeys(topics))
        for name in names:
            self._records.mirror(link, name)
        refusals = await self.refusals(link, names, groups=groups, force=force, direction=direction)
        views = [await self._mirrors.describe(link, name) for name in names]
        limit = parse(self._records.link(link).configs).throttle_bytes_per_second
        blockers = list(dict.fromkeys(str(exc) for exc in refusals.values()))  # a set has one reason for all of it
        return PromoteSetPlan(topics=[_plan(view, limit) for view in views], blockers=blockers)


def _plan(view: MirrorView, limit: int) -> PromotePlan:
    waits = [f"partition {one.partition}: {one.waits_for}" for one in view.partitions if one.waits_for]
    moved = view.clients_not_migrated
    if moved is not None and moved.bypassed_last_minute:
        waits.append(
            f"{moved.bypassed_last_minute} records of the last minute were written directly to the source: what such a "
            "producer writes after the promote stays on the source"
        )
    return PromotePlan(view=view, waits_for=waits, eta_s=eta_s(view.partitions, limit))


def eta_s(partitions: Sequence[PartitionStatus], limit: int = 0) -> float | None:
    """About how long until the mirror is level, by how fast it copies now; 0: it is, None: not known, or never.

    `limit`: the link's throttle, in bytes a second, 0 for none: what was measured just now may be of before it, or a
    burst.
    """
    if not partitions or any(one.lag is None for one in partitions):
        return None
    lag = sum(one.lag or 0 for one in partitions)
    if not lag:
        return 0.0
    records, size = sum(one.records_total for one in partitions), sum(one.bytes_total for one in partitions)
    speed = sum(one.bytes_per_s for one in partitions)
    speed = min(speed, limit) if limit else speed
    if not records or not size or speed <= 0:
        return None
    return lag * (size / records) / speed
