"""The table of what was found in docs/background/security.md names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
_ROW = re.compile(r"^\| .+ \| `(tests/\S+\.py)`: `(test_\w+)` \|$", re.MULTILINE)


def test_each_finding_has_its_test() -> None:
    text = (ROOT / "docs/background/security.md").read_text(encoding="utf-8")
    table = text.partition("## What was found")[2].partition("\n## ")[0]
    rows = _ROW.findall(table)
    assert len(rows) == table.count("\n| ") - 1  # but for its head
    missing = [
        f"{file}: {test}" for file, test in rows if f"def {test}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]
    assert not missing
