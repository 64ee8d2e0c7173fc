"""The command as a plain install has it: the wheel and what its metadata requires, without an extra.

A real environment, made without pip: no wheel of the packages is at hand. The project's own wheel is built and unpacked
into it; of each package that it requires, and these require in turn, what this environment has installed is linked.
"""

from __future__ import annotations

import subprocess
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.wheel import build_wheel

MAIN = "from gateway.cli.main import main; main()"
SPARK = ("pyspark", "py4j", "pyarrow")
HELPS = """
import sys
from typer.main import get_command
from typer.testing import CliRunner
from gateway.cli.main import app

def paths(command, path=()):
    yield path
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from paths(command.get_command(None, name), (*path, name))

root = get_command(app)
found = list(paths(root))
for path in found:
    shown = CliRunner().invoke(app, [*path, "-h"])
    assert shown.exit_code == 0, (path, shown.output, shown.exception)
print(len(found))
"""


def required(project: Distribution) -> Iterator[Distribution]:
    """All that it requires without an extra of its own, directly or not."""
    waiting, seen = _of(project, {""}), set()
    while waiting:
        wanted = waiting.pop()
        if (key := (canonicalize_name(wanted.name), *sorted(wanted.extras))) in seen:
            continue
        seen.add(key)
        found = distribution(key[0])
        yield found
        waiting += _of(found, {"", *wanted.extras})


def _of(package: Distribution, extras: set[str]) -> list[Requirement]:
    found = [Requirement(text) for text in package.requires or ()]
    return [one for one in found if one.marker is None or any(one.marker.evaluate({"extra": name}) for name in extras)]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of the environment."""
    home = tmp_path_factory.mktemp("plain") / "venv"
    venv.create(home, with_pip=False)
    (site,) = home.glob("lib/python*/site-packages")
    built = build_wheel(tmp_path_factory.mktemp("wheel"))
    with zipfile.ZipFile(built) as wheel:
        wheel.extractall(site)
    (metadata,) = site.glob("lockgate-*.dist-info")
    for package in required(Distribution.at(metadata)):
        for top in {file.parts[0] for file in package.files or () if ".." not in file.parts}:
            link = site / top
            if not link.exists() and top != "__pycache__":
                link.symlink_to(Path(str(package.locate_file(top))))
    return home / "bin" / "python"


def lockgate(python: Path, *words: str, program: str = MAIN) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-I", "-c", program, *words], capture_output=True, text=True, check=False, timeout=120, cwd="/"
    )


def test_it_has_no_spark_and_not_this_checkout(python: Path) -> None:
    told = lockgate(
        python,
        program="import gateway, importlib.util as u; print(gateway.__file__, "
        f"[name for name in {SPARK!r} if u.find_spec(name)])",
    )
    assert told.stdout.startswith(str(python.parents[1])), told.stderr
    assert told.stdout.rstrip().endswith("[]")


def test_it_says_its_version(python: Path) -> None:
    assert lockgate(python, "version").stdout.startswith("lockgate ")


def test_every_command_has_its_help(python: Path) -> None:
    shown = lockgate(python, program=HELPS)
    assert shown.returncode == 0, shown.stderr
    assert int(shown.stdout) > 60


@pytest.mark.parametrize("job", ["catch-up", "translate-offsets", "audit", "plan"])
def test_a_job_says_in_one_line_what_it_needs(python: Path, job: str) -> None:
    refused = lockgate(python, "job", job, "--link", "west")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "pip install 'lockgate[spark]'" in refused.stderr


def test_a_gateway_says_in_one_line_that_its_file_is_not_there(python: Path, tmp_path: Path) -> None:
    refused = lockgate(python, "serve", "--config", str(tmp_path / "none.yaml"))
    assert refused.returncode != 0
    assert "Traceback" not in refused.stderr
    assert "none.yaml" in refused.stderr
