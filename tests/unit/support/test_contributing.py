"""CONTRIBUTING.md, ARCHITECTURE.md and the docstrings of packages lead to files that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TO_BE_WRITTEN = {"gateway/proxy/handlers/leave_group.py"}  # the example of a recipe, until somebody tries it
SHIPPED = [
    str(path.relative_to(ROOT))
    for top in ("protocol", "gateway", "lockgate", "tests", "demo")
    for path in (ROOT / top).rglob("*.py")
]
ROOTS = ("gateway/", "protocol/", "lockgate/", "tests/", "configs/", "docs/", "demo/", "bench/")


def test_every_file_that_a_recipe_names_is_there() -> None:
    named = {path for path in re.findall(r"`([\w./-]+\.(?:py|yaml|md))`", TEXT) if path.startswith(ROOTS)}
    assert len(named) > 40
    assert {path for path in named if not (ROOT / path).exists()} <= TO_BE_WRITTEN


def test_the_map_of_tests_support_is_whole() -> None:
    (part,) = re.findall(r"### What is in tests/support\n(.*?)\n### ", TEXT, re.DOTALL)
    named = {Path(path).name for path in re.findall(r"`([\w./]+\.py)`", part)}
    there = {path.name for path in (ROOT / "tests" / "support").rglob("*.py") if path.name != "__init__.py"}
    assert named == there


def test_the_architecture_is_one_walk_past_files_that_are_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 2_000  # packages explain themselves
    assert not _not_there(text)


def test_every_file_that_a_package_names_is_there() -> None:
    missing = {
        str(package.relative_to(ROOT)): names
        for package in [*(ROOT / "gateway").rglob("__init__.py"), *(ROOT / "protocol").rglob("__init__.py")]
        if (names := _not_there(ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) or ""))
    }
    assert missing == {}


def _not_there(text: str) -> set[str]:
    """Files that a text names, by path or by the end of one, and that are not there."""
    return {
        name
        for name in re.findall(r"`([\w./]+\.py)`", text)
        if not any(f"/{path}".endswith(f"/{name}") for path in SHIPPED)
    }
