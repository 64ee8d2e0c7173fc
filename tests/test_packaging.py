"""What the wheel holds."""

import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from gateway.devcluster import KAFKA_VERSIONS
from lockgate import PACKAGES
from tests.support.wheel import build_wheel

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel")))


def test_the_wheel_holds_just_its_packages(wheel: zipfile.ZipFile) -> None:
    top = {name.split("/")[0] for name in wheel.namelist()}
    assert {name for name in top if not name.endswith((".dist-info", ".data"))} == {"gateway", "lockgate", "protocol"}
    assert len(top) == 5  # the last one: its metadata, and what goes to share/


def test_the_wheel_holds_every_module_and_its_data(wheel: zipfile.ZipFile) -> None:
    packed = set(wheel.namelist())
    modules = {
        str(path.relative_to(ROOT))
        for package in ("gateway", "lockgate", "protocol")
        for path in (ROOT / package).rglob("*.py")
    }
    assert modules <= packed
    assert {"gateway/py.typed", "lockgate/py.typed", "protocol/py.typed", "gateway/devcluster/pom.xml"} <= packed
    assert {f"gateway/api/docs/docs.{kind}" for kind in ("html", "css", "js")} <= packed
    page = (ROOT / "gateway/console/page").iterdir()
    assert {f"gateway/console/page/{file.name}" for file in page} <= packed
    assert {f"gateway/devcluster/locks/{version}.lock" for version in KAFKA_VERSIONS} <= packed
    assert wheel.read("gateway/devcluster/pom.xml") == (ROOT / "configs" / "brokers" / "pom.xml").read_bytes()


def test_no_other_distribution_brings_these_packages() -> None:
    owners = packages_distributions()
    assert {name: set(owners.get(name, ())) for name in ("lockgate", *PACKAGES)} == {
        name: {"lockgate"} for name in ("lockgate", *PACKAGES)
    }
