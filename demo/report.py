"""The result for people (a table), for programs (build/demo.json) and in one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.checker import Verdict
from demo.json_report import write_json
from demo.settings import Settings
from demo.view import Step


def write_report(path: Path, settings: Settings, steps: Sequence[Step], verdict: Verdict | None, failure: str) -> None:
    """Write the JSON report; `failure` is empty for a run that came to its end."""
    faults = verdict.faults(settings.limits) if verdict is not None else []
    write_json(
        path,
        steps,
        failure,
        passed=verdict is not None and not faults,
        faults=faults,
        settings=settings,
        verdict=_values(verdict) if verdict is not None else None,
    )


def last_line(settings: Settings, verdict: Verdict | None, failure: str) -> str:
    """The last line on stdout."""
    if verdict is None:
        return f"demo: FAIL {failure}"
    result = "FAIL" if failure or verdict.faults(settings.limits) else "PASS"
    return (
        f"demo: {result} lost={verdict.lost} duplicated={verdict.duplicated} reordered={verdict.reordered}"
        f" missed={verdict.missed} reread={verdict.reread} offsets_equal={str(verdict.offsets_equal).lower()}"
        f" promote_gap_ms={verdict.promote_gap_ms} group_switch_ms={verdict.group_switch_ms}"
    )


def print_report(console: Console, settings: Settings, steps: Sequence[Step], verdict: Verdict) -> None:
    """Print the final tables and, for a failure, what was found."""
    times = Table("step", title="How long each step took")
    times.add_column("seconds", justify="right")
    times.add_column("")
    for step in steps:
        times.add_row(step.title, f"{step.seconds:.1f}", step.note)
    times.add_row("total", f"{sum(step.seconds for step in steps):.1f}", "", style="bold")
    console.print(times)
    results = Table("", title="Counted from the clients' logs and both clusters")
    results.add_column("", justify="right")
    for label, value in _rows(verdict):
        results.add_row(label, value)
    console.print(results)
    for fault in verdict.faults(settings.limits):
        console.print(f"[red]{fault}[/red]")
    for line in (*verdict.examples, *verdict.errors[:5]):
        console.print(f"  {line}", markup=False, highlight=False)


def _rows(verdict: Verdict) -> list[tuple[str, str]]:
    rows = [
        ("acknowledged", f"{verdict.acknowledged:,}"),
        ("found on the target", f"{verdict.found:,}"),
        ("lost", str(verdict.lost)),
        ("duplicated", str(verdict.duplicated)),
        ("reordered per producer and partition", str(verdict.reordered)),
        ("offsets equal up to the cut", "yes" if verdict.offsets_equal else "NO"),
    ]
    for name, group in verdict.groups.items():
        rows.append((f"group {name}: read / missed / read twice", f"{group.read:,} / {group.missed} / {group.reread}"))
        switch = "never" if group.switch_ms is None else f"{group.switch_ms} ms"
        rows.append((f"group {name}: last source member left -> first read on the target", switch))
    for name, gap in verdict.promote_gaps_ms.items():
        rows.append((f"{name}: longest wait for an acknowledgement during the promote", f"{gap} ms"))
    rows.append(("errors shown to clients", str(len(verdict.errors))))
    return rows


def _values(verdict: Verdict) -> dict[str, Any]:
    return {
        **asdict(verdict),
        "missed": verdict.missed,
        "reread": verdict.reread,
        "promote_gap_ms": verdict.promote_gap_ms,
        "group_switch_ms": verdict.group_switch_ms,
    }
