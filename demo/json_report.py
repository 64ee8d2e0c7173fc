"""What every demo writes for programs: how it ended, how long each step took, and what else it has to say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from demo.view import Step


def write_json(
    path: Path, steps: Sequence[Step], failure: str, *, passed: bool, faults: Sequence[str], settings: Any, **more: Any
) -> None:
    """Write the report.

    Args:
        failure: why the run did not come to its end; '' when it did.
        passed: what it found is as it should be; such a run that failed all the same is a FAIL.
        faults: what is not, a line each.
        settings: a dataclass.
    """
    content = {
        "result": "PASS" if passed and not failure else "FAIL",
        "failure": failure,
        "faults": list(faults),
        "seconds": round(sum(step.seconds for step in steps), 3),
        "steps": [
            {"title": step.title, "seconds": round(step.seconds, 3), "state": step.state, "note": step.note}
            for step in steps
        ],
        **more,
        "settings": asdict(settings),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")
