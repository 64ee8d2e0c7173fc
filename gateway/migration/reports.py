"""Makes the report of a migration: gathers what is known; `rules/report.py` does the rest. Nothing is changed."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

from gateway.fleet.views import GatewayView
from gateway.migration.migrations import Migrations
from gateway.migration.ready import ReadinessCheck
from gateway.migration.rules.report import ReportScene, report
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.records import Records
from gateway.topics.mirrors import Mirrors
from gateway.version import VERSION


class MigrationReports:
    """`gateways`: of the fleet, asked of whoever knows it."""

    def __init__(
        self,
        *,
        records: Records,
        target: ClusterAccess,
        migrations: Migrations,
        mirrors: Mirrors,
        readiness: ReadinessCheck,
    ) -> None:
        self._records = records
        self._target = target
        self._migrations = migrations
        self._mirrors = mirrors
        self._readiness = readiness

    async def make(self, name: str) -> dict[str, Any]:
        """The report of one migration, as JSON holds it.

        Raises:
            NotFound: there is no such migration.
        """
        view, store = await self._migrations.describe(name), self._records.store
        link = view.record.link
        mirrors = [one for one in store.mirrors.values() if one.link == link]
        found = store.links.get(link)
        found = found if found is not None and view.record.is_of(found) else None  # its namesake has another source
        return report(
            ReportScene(
                record=view.record,
                file=view.file.model_dump(mode="json", by_alias=True, exclude_defaults=True),
                plan=view.plan,
                mirrors=mirrors,
                groups=[one for one in store.groups.values() if one.link == link],
                source_cluster_id="" if found is None else found.source_cluster_id,
                target_cluster_id=self._target.cluster_id(),
                at_ms=self._records.now_ms(),
                readiness=self._readiness.last.get(name, {}),
                records_after_cutover={
                    one.source_topic: late
                    for one in mirrors
                    if (late := self._mirrors.view(one).late_records) is not None
                },
                versions={"lockgate": VERSION, "python": platform.python_version()},
                gateways=_names(self._readiness.gateways),
            )
        )


def _names(gateways: Callable[[], Sequence[GatewayView]]) -> Sequence[str]:
    return [one.name for one in gateways()]
