"""The result in one line, and all of it as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from demo.json_report import write_json
from demo.spark.acts import Judgement
from demo.spark.run import Run
from demo.spark.settings import Settings
from demo.view import Step


def faults(run: Run, judgement: Judgement) -> list[str]:
    """What is not as it should be; empty for a PASS."""
    counted = judgement.counted
    found = [
        f"{name}: {value}"
        for name, value in (
            ("lost", counted.lost),
            ("duplicated", counted.duplicated),
            ("reordered", counted.reordered),
            ("records on the target that are too many", max(0, counted.found - counted.acknowledged)),
        )
        if value
    ]
    found += counted.unequal
    if judgement.audit != "IDENTICAL":
        found.append(f"the audit says {judgement.audit}")
    if judgement.groups_exact != run.settings.groups:
        found.append(f"{run.settings.groups - judgement.groups_exact} groups are not where they were on the source")
    if not run.killed_tasks:
        found.append("no task was killed")
    if counted.copied_bytes < run.settings.backlog_mb * 900_000:
        found.append(f"only {counted.copied_bytes} bytes were on the target when the job had ended")
    return found


def last_line(run: Run | None, judgement: Judgement | None, failure: str) -> str:
    """The last line on stdout."""
    if run is None or judgement is None:
        return f"demo-spark: FAIL {failure}"
    counted = judgement.counted
    return (
        f"demo-spark: {'FAIL' if failure or faults(run, judgement) else 'PASS'} copied_bytes={counted.copied_bytes}"
        f" duplicated={counted.duplicated} lost={counted.lost} audit={judgement.audit}"
        f" groups_exact={judgement.groups_exact} handoff_ms={run.handoff_ms}"
    )


def write_report(
    settings: Settings, steps: Sequence[Step], run: Run | None, judgement: Judgement | None, failure: str
) -> None:
    """Write the JSON report."""
    found = faults(run, judgement) if run is not None and judgement is not None else []
    write_json(
        settings.report,
        steps,
        failure,
        passed=judgement is not None and not found,
        faults=found,
        settings=settings,
        counted=asdict(judgement.counted) if judgement is not None else None,
        audit=judgement.audit if judgement is not None else None,
        groups_exact=judgement.groups_exact if judgement is not None else None,
        handoff_ms=run.handoff_ms if run is not None else None,
        jobs=_short(run.reports) if run is not None else {},
    )


def _short(reports: Mapping[str, Any]) -> dict[str, Any]:
    """The jobs' reports without their long lists."""
    return {name: {key: value for key, value in report.items() if key != "groups"} for name, report in reports.items()}
