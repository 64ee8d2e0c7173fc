"""CONTRIBUTING.md leads to files that are there, and its map of tests/support has all of them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TO_BE_WRITTEN = {"gateway/proxy/handlers/leave_group.py"}  # the example of a recipe, until somebody tries it
ROOTS = ("gateway/", "protocol/", "tests/", "configs/", "docs/", "demo/", "bench/")


def test_every_file_that_a_recipe_names_is_there() -> None:
    named = {path for path in re.findall(r"`([\w./-]+\.(?:py|yaml|md))`", TEXT) if path.startswith(ROOTS)}
    assert len(named) > 40
    assert {path for path in named if not (ROOT / path).exists()} <= TO_BE_WRITTEN


def test_the_map_of_tests_support_is_whole() -> None:
    (part,) = re.findall(r"### What is in tests/support\n(.*?)\n### ", TEXT, re.DOTALL)
    named = {Path(path).name for path in re.findall(r"`([\w./]+\.py)`", part)}
    there = {path.name for path in (ROOT / "tests" / "support").rglob("*.py") if path.name != "__init__.py"}
    assert named == there
