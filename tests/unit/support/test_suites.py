"""The suites that CI runs in turn: each is a target, each has its turn, and what it ends with is told."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "suites.sh"
SUITES = re.search(r'SUITES="([^"]*)"', SCRIPT.read_text(encoding="utf-8"))


@pytest.fixture(name="copy")
def _copy(tmp_path: Path) -> Path:
    """A project of two scripts whose `make` fails for one suite."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    for name in ("suites.sh", "need.sh"):
        (scripts / name).write_bytes((ROOT / "scripts" / name).read_bytes())
    made = tmp_path / "make"
    made.write_text('#!/bin/sh\necho "made $2"\n[ "$2" != test-links ]\n', encoding="utf-8")
    made.chmod(0o755)
    return tmp_path


def run(copy: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "scripts/suites.sh", *args],
        cwd=copy,
        env={**os.environ, "MAKE": str(copy / "make")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_each_suite_is_a_target_of_the_makefile() -> None:
    assert SUITES is not None
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(SUITES[1].split()) <= set(targets)


def test_each_suite_has_its_turn(copy: Path) -> None:
    assert SUITES is not None
    suites = SUITES[1].split()
    missing = (
        "Chromium"
        in subprocess.run(
            ["sh", "scripts/need.sh", "chromium"], cwd=copy, capture_output=True, text=True, timeout=60, check=False
        ).stdout
    )
    made = {run(copy, "turn", str(number)).stdout.split("made ")[1].strip() for number in range(len(suites))}
    assert made == set(suites) - ({"test-console", "test-security"} if missing else set())


def test_the_exit_code_of_the_suite_is_that_of_the_run(copy: Path) -> None:
    assert SUITES is not None
    turn = SUITES[1].split().index("test-links")
    assert run(copy, "turn", str(turn)).returncode == 1
    assert run(copy, "turn", str(turn + 1)).returncode == 0


def test_all_suites_run_even_if_one_fails_and_their_last_lines_are_shown_again(copy: Path) -> None:
    assert SUITES is not None
    ended = run(copy, "all")
    assert ended.returncode == 1
    summary = ended.stdout.splitlines()[-len(SUITES[1].split()) :]
    assert "test-exact: made test-exact (exit 0)" in summary
    assert "test-links: made test-links (exit 1)" in summary


def test_an_unknown_word_is_refused(copy: Path) -> None:
    ended = run(copy, "some")
    assert ended.returncode == 2
    assert ended.stderr == "scripts/suites.sh: turn N or all, not 'some'\n"
