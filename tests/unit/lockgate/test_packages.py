"""The package that users import: it knows its own packages from others of their names, and docs use nothing else."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli.jobs.job import NEEDS

ROOT = Path(__file__).resolve().parents[3]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def run(first: Path, code: str) -> subprocess.CompletedProcess[str]:
    """In a Python that looks in `first` before it looks here."""
    path = f"import sys; sys.path[:0] = [{str(first)!r}, {str(ROOT)!r}]; "
    return subprocess.run(
        [sys.executable, "-I", "-c", path + code], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("name", ["gateway", "protocol"])
@pytest.mark.parametrize("code", ["from lockgate.command import main; main()", "import lockgate.spark"])
def test_another_package_of_the_name_is_told_in_one_line(tmp_path: Path, name: str, code: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise RuntimeError('imported')\n", encoding="utf-8")
    said = run(tmp_path, code)
    line = said.stderr.splitlines()[-1]
    assert said.returncode == 1
    assert f"lockgate's package '{name}' is hidden by another one of that name ({tmp_path / name})" in line
    assert "an environment of its own" in line
    assert "imported" not in said.stderr
    assert ("Traceback" in said.stderr) is ("spark" in code)  # an import raises, a command says


def test_a_module_of_the_name_is_told_and_a_folder_without_code_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "gateway").mkdir()
    assert run(tmp_path, "import lockgate; lockgate.require_own_packages()").returncode == 0
    (tmp_path / "protocol.py").touch()
    assert f"({tmp_path / 'protocol.py'})" in run(tmp_path, "import lockgate; lockgate.require_own_packages()").stderr


def test_a_package_that_was_overwritten_in_place_is_told(tmp_path: Path) -> None:
    """pip lets another distribution write its files over ours, in one environment."""
    shutil.copytree(ROOT / "lockgate", tmp_path / "lockgate")
    (tmp_path / "gateway").mkdir()
    (tmp_path / "gateway" / "__init__.py").write_text("WHOSE = 'theirs'\n", encoding="utf-8")
    said = run(tmp_path, "from lockgate.command import main; main()")
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (1, "", 1)
    assert f"'gateway' was overwritten by another distribution's ({tmp_path / 'gateway'})" in said.stderr


def test_the_command_runs() -> None:
    said = run(ROOT, "sys.argv = ['lockgate', 'version']; from lockgate.command import main; main()")
    assert said.stdout.startswith("lockgate 0."), said.stderr


def test_docs_import_what_is_for_users() -> None:
    """A room of `gateway` may be renamed; `lockgate.spark` stays."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCS)
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    imported = {
        (node.module, name.name)
        for block in blocks
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for name in node.names
        if node.module.split(".")[0] in ("gateway", "protocol", "lockgate")
    }
    assert imported == {("lockgate.spark", "register")}


def test_extras_are_named_as_they_can_be_installed() -> None:
    """In what messages, docs and the image say, as in pyproject.toml."""
    told = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (extras,) = re.findall(r"^\[project\.optional-dependencies\]\n(.*?)^\[", told, re.DOTALL | re.MULTILINE)
    there = set(re.findall(r"^(\w+) = \[", extras, re.MULTILINE))
    code = [*sorted((ROOT / "gateway").rglob("*.py")), *sorted((ROOT / "lockgate").rglob("*.py")), *DOCS]
    named = {
        extra
        for path in code
        for extra in re.findall(r"(?:lockgate|\.|-any\.whl)\[(\w+)\]'?", path.read_text(encoding="utf-8"))
    }
    assert "spark" in named
    assert "pip install 'lockgate[spark]'" in NEEDS  # there it is installed: pip looks for what the extra needs alone
    assert named <= there
