"""The result of the secure demo: in one line, and for programs (build/demo-secure.json)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

from demo.checker import Verdict
from demo.json_report import write_json
from demo.secure.identities import Identities
from demo.secure.intruder import Told
from demo.settings import Settings
from demo.view import Step


class SecureVerdict(NamedTuple):
    """What the plain demo judges, and who did it under which name."""

    logs: Verdict
    identities: Identities
    told: Mapping[str, Told]

    def faults(self, settings: Settings) -> list[str]:
        """Why this is not a pass, one line each."""
        return [*self.logs.faults(settings.limits), *self.identities.faults()]


def write_report(settings: Settings, steps: Sequence[Step], verdict: SecureVerdict | None, failure: str) -> None:
    """Write the JSON report; `failure` is empty for a run that came to its end."""
    faults = verdict.faults(settings) if verdict is not None else []
    found = verdict and {
        "verdict": asdict(verdict.logs),
        "identities": asdict(verdict.identities),
        "told": verdict.told,
    }
    write_json(
        settings.report,
        steps,
        failure,
        passed=verdict is not None and not faults,
        faults=faults,
        settings=settings,
        **(found or {}),
    )


def last_line(settings: Settings, verdict: SecureVerdict | None, failure: str) -> str:
    """The last line on stdout."""
    if verdict is None:
        return f"demo-secure: FAIL {failure}"
    logs, identities = verdict.logs, verdict.identities
    result = "FAIL" if failure or verdict.faults(settings) else "PASS"
    return (
        f"demo-secure: {result} lost={logs.lost} duplicated={logs.duplicated} reordered={logs.reordered}"
        f" missed={logs.missed} reread={logs.reread} offsets_equal={str(logs.offsets_equal).lower()}"
        f" identities_kept={str(identities.kept).lower()} privilege_gained={len(identities.gained)}"
        f" client_errors={len(logs.errors)}"
    )
