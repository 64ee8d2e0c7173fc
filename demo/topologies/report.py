"""The result in one line, for people and for programs (build/demo-topologies.json)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from demo.json_report import write_json
from demo.topologies.settings import TopologySettings
from demo.topologies.verdict import TopologyVerdict
from demo.view import Step


def write_report(
    settings: TopologySettings, steps: Sequence[Step], verdict: TopologyVerdict | None, failure: str
) -> None:
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


def result(verdict: TopologyVerdict | None, failure: str) -> str:
    """PASS or FAIL."""
    return "PASS" if verdict is not None and verdict.passed and not failure else "FAIL"


def last_line(verdict: TopologyVerdict | None, failure: str) -> str:
    """The last line on stdout."""
    if verdict is None:
        return f"demo-topologies: FAIL {failure}"
    return (
        f"demo-topologies: {result(verdict, failure)} lost={verdict.lost} duplicated={verdict.duplicated}"
        f" reordered={verdict.reordered} loops_refused={verdict.loops_refused} client_errors={len(verdict.errors)}"
    )
