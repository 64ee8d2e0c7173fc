"""The result in one line, for people and for programs (build/demo-exact.json)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console

from demo.exact.settings import ExactSettings
from demo.exact.verdict import ExactVerdict
from demo.json_report import write_json
from demo.view import Step


def write_report(settings: ExactSettings, steps: Sequence[Step], verdict: ExactVerdict | None, failure: str) -> None:
    """Write the JSON report; `failure` is empty for a run that came to its end."""
    write_json(
        settings.report,
        steps,
        failure,
        passed=verdict is not None and verdict.passed,
        faults=(*verdict.examples, *verdict.errors) if verdict is not None else (),
        settings=settings,
        verdict=asdict(verdict) if verdict is not None else None,
    )


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
