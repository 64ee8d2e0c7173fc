"""Client quotas of a link's source: compared with the target's, and set there.

What is to be set is decided in `rules/quotas.py`. Requests are of a bounded size, and each stands for itself: `apply`
that breaks off anywhere is asked again, and sets what is missing then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from gateway.access.rules.quotas import (
    QuotaOptions,
    QuotaRow,
    QuotaState,
    TooManyQuotas,
    notes,
    plan_quotas,
    require_factors,
)
from gateway.errors import BadRequest, Conflict
from gateway.kafka.access.quotas import IN_A_REQUEST
from gateway.kafka.rules.quota import QuotaKey
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.door import Door
from gateway.operations.records import Records
from gateway.operations.sources import SourcesForViews
from gateway.state.link_config import parse
from gateway.transport.locks import KeyedLocks

_TO_SET = (QuotaState.MISSING, QuotaState.OVERWRITE)
_log = structlog.get_logger("lockgate.control")


@dataclass(frozen=True, slots=True)
class QuotaPlan:
    """`rows`: a quota of the source each. `own`: quotas of the target that the source has not: never touched."""

    rows: Sequence[QuotaRow]
    own: int
    notes: Sequence[str]

    def count(self, state: QuotaState) -> int:
        """Rows in this state."""
        return sum(row.state is state for row in self.rows)


class Quotas:
    """Of all links."""

    def __init__(
        self, *, records: Records, views: SourcesForViews, target: ClusterAccess, locks: KeyedLocks, door: Door
    ) -> None:
        self._records = records
        self._views = views
        self._target = target
        self._locks = locks
        self._door = door

    async def plan(self, name: str, options: QuotaOptions) -> QuotaPlan:
        """What would be set; nothing is.

        Raises:
            BadRequest: a factor that is none.
            NotFound: no such link.
            SourceUnreachable, TargetUnreachable, Conflict: a cluster does not answer, or refuses, or has too many.
        """
        try:
            require_factors(options)
        except ValueError as exc:
            raise BadRequest(str(exc)) from exc
        link = self._records.link(name)
        access = await self._views.reach(link)
        with source_errors(name):
            source = await access.quotas()
        with target_errors():
            target = await self._target.quotas()
        try:
            rows = plan_quotas(source, target, parse(link.configs).acl_principals, options)
        except TooManyQuotas as exc:
            raise Conflict(f"link '{name}': {exc}") from exc
        named = {row.target for row in rows}
        return QuotaPlan(rows, sum(key not in named for key in target), notes(rows))

    async def apply(self, name: str, options: QuotaOptions) -> QuotaPlan:
        """Set what is missing, and with `overwrite` what differs.

        Raises:
            As `plan`. With TargetUnreachable some may have been set: ask again.
        """
        async with self._locks.hold(f"quotas/{name}"):
            link = self._records.link(name)
            plan = await self.plan(name, options)
            wanted = {
                row.target: row.wanted
                for row in plan.rows
                if row.state in _TO_SET and row.target is not None and row.wanted is not None
            }
            done: dict[QuotaKey, tuple[QuotaState, str]] = {}
            keys = list(wanted)
            for first in range(0, len(keys), IN_A_REQUEST):
                some = {key: wanted[key] for key in keys[first : first + IN_A_REQUEST]}
                if first and not options.overwrite:  # the plan is as old as the requests before this one
                    with target_errors():
                        present = await self._target.quotas()
                    for key in some.keys() & present.keys():
                        del some[key]
                        done[key] = QuotaState.DIFFERS, "somebody has set it meanwhile"
                if not some:
                    continue
                with target_errors(), self._door.permit(link):
                    refused = await self._target.set_quotas(some)
                for key in some:
                    exc = refused.get(key)
                    done[key] = (QuotaState.SET, "") if exc is None else (QuotaState.REFUSED, str(exc))
        if done:
            _log.info("client quotas set", link=name, quotas=sum(state is QuotaState.SET for state, _ in done.values()))
        rows = [_after(row, done) for row in plan.rows]
        return QuotaPlan(rows, plan.own, plan.notes)


def _after(row: QuotaRow, done: dict[QuotaKey, tuple[QuotaState, str]]) -> QuotaRow:
    if row.state not in _TO_SET or row.target not in done:
        return row
    return row.became(*done[row.target])
