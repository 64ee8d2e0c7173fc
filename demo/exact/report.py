"""The result in one line, for people and for programs (build/demo-exact.json)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console

from demo.exact.settings import ExactSettings
from demo.exact.verdict import ExactVerdict
from demo.view import Step


def write_report(settings: ExactSettings, steps: Sequence[Step], verdict: ExactVerdict | None, failure: str) -> None:
    """Write the JSON report; `failure` is empty for a run that came to its end."""
    content = {
        "result": result(verdict, failure),
        "failure": failure,
        "steps": [{"title": s.title, "seconds": round(s.seconds, 3), "state": s.state, "note": s.note} for s in steps],
        "verdict": asdict(verdict) if verdict is not None else None,
        "settings": {**asdict(settings), "folder": str(settings.folder), "report": str(settings.report)},
    }
    settings.report.parent.mkdir(parents=True, exist_ok=True)
    settings.report.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def result(verdict: ExactVerdict | None, failure: str) -> str:
    """PASS or FAIL."""
    return "PASS" if verdict is not None and verdict.passed and not failure else "FAIL"


def print_examples(console: Console, verdict: ExactVerdict) -> None:
    """What was found, a line each."""
    for line in (*verdict.examples, *verdict.errors[:10]):
        console.print(f"   {line}", style="red", markup=False)


def last_line(verdict: ExactVerdict | None, failure: str) -> str:
    """The last line on stdout."""
    if verdict is None:
        return f"demo-exact: FAIL {failure}"
    return (
        f"demo-exact: {result(verdict, failure)} lost={verdict.lost} duplicated={verdict.duplicated}"
        f" reordered={verdict.reordered} aborted_seen={verdict.aborted_seen}"
        f" offsets_exact={str(verdict.offsets_exact).lower()} client_errors={len(verdict.errors)}"
        f" round_trip={str(verdict.round_trip).lower()}"
    )
