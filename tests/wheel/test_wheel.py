"""The wheel and the sdist as `make dist` builds them: the same bytes each time, and all that a user needs."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.wheel import ROOT


def built(folder: Path, epoch_s: int = 1_790_000_000) -> tuple[Path, Path]:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch_s)}
    command = [sys.executable, str(ROOT / "scripts" / "dist.py"), str(folder)]
    subprocess.run(command, check=True, capture_output=True, env=environment, timeout=600)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return built(tmp_path_factory.mktemp("first") / "dist")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_two_builds_are_equal_to_the_byte(first: tuple[Path, Path], tmp_path: Path) -> None:
    second = built(tmp_path / "elsewhere" / "dist")
    assert [(path.name, digest(path)) for path in first] == [(path.name, digest(path)) for path in second]


def test_the_wheel_has_what_a_user_needs(first: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(first[0]) as wheel:
        names = set(wheel.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        told = wheel.read(metadata).decode()
    (data,) = {name.split("/")[0] for name in names if name.split("/")[0].endswith(".data")}
    assert f"{data}/data/share/man/man1/lockgate.1" in names
    examples = {Path(name).name for name in names if name.startswith(f"{data}/data/share/doc/lockgate/examples/")}
    assert examples == {"full.yaml", "minimal.yaml", "lockgate.service"}
    assert {f"{data}/data/share/{path}" for path in COMPLETIONS} <= names
    assert "Provides-Extra: spark" in told
    assert "License-Expression: Apache-2.0" in told


def test_the_sdist_has_what_the_wheel_is_made_of(first: tuple[Path, Path]) -> None:
    with tarfile.open(first[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"README.md", "LICENSE", "pyproject.toml", "lockgate/spark.py", "configs/man/lockgate.1"} <= names
    assert {f"configs/completions/{Path(path).name}" for path in COMPLETIONS} <= names
    assert {"configs/full.yaml", "configs/minimal.yaml", "configs/systemd/lockgate.service"} <= names


COMPLETIONS = (
    "bash-completion/completions/lockgate",
    "zsh/site-functions/_lockgate",
    "fish/vendor_completions.d/lockgate.fish",
)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("deploy/helm/lockgate/Chart.yaml", "\nversion: {}\nappVersion: {}\n"),
        ("SECURITY.md", "There is one version, {}."),
        ("README.md", "**Status**: {}"),
        ("docs/index.md", "Version {}"),
        ("CHANGELOG.md", "\n## {} ("),
    ],
)
def test_each_place_has_the_version(first: tuple[Path, Path], path: str, words: str) -> None:
    version = first[0].name.split("-")[1]
    assert words.replace("{}", version) in (ROOT / path).read_text(encoding="utf-8")


def test_the_sdist_builds_the_same_wheel(first: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.unpack_archive(first[1], tmp_path)  # Python 3.11.2, Debian's, has no filters
    (folder,) = tmp_path.iterdir()
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(tmp_path / "dist"),
        str(folder),
    ]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1790000000"}
    subprocess.run(command, check=True, capture_output=True, env=environment, timeout=600)
    (again,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(first[0]) as one, zipfile.ZipFile(again) as other:
        assert {name: one.read(name) for name in one.namelist()} == {
            name: other.read(name) for name in other.namelist()
        }
