"""A missing prerequisite is one line that says what to install."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """A folder for $PATH that holds only what sh and make themselves need."""
    for tool in ("sh", "make", "sed", "mkdir", "touch"):
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / tool).symlink_to(found)
    return tmp_path


@pytest.mark.parametrize(
    ("target", "named"),
    [("demo", ["Python 3.11", "JDK", "Maven"]), ("test", ["Python 3.11", "JDK", "Maven", "Go"])],
)
def test_make_names_all_that_is_missing_in_one_line(bare_path: Path, target: str, named: list[str]) -> None:
    done = subprocess.run(
        ["make", target], cwd=ROOT, env={"PATH": str(bare_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert all(name in done.stderr for name in named)


def test_an_old_java_is_as_good_as_none(bare_path: Path) -> None:
    for tool, text in (("java", "openjdk version 11.0.2"), ("javac", "javac 11.0.2")):
        (bare_path / tool).write_text(f"#!{shutil.which('sh')}\necho '{text}'\n")
        (bare_path / tool).chmod(0o755)
    assert "JDK of version 17" in need(bare_path, "java")
    (bare_path / "javac").write_text(f"#!{shutil.which('sh')}\necho 'javac 21.0.1'\n")
    assert need(bare_path, "java") == ""


def need(path: Path, what: str) -> str:
    command = ["sh", "scripts/need.sh", what]
    return subprocess.run(command, cwd=ROOT, env={"PATH": str(path)}, capture_output=True, text=True, check=True).stdout
