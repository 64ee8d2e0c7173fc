"""One Spark session for all tests of the jobs; everything in this folder is marked `spark`."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gateway.jobs.session import build_session
from tests.support.jobs.spark_connect import WITHOUT_PANDAS

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session", autouse=True)
def without_pandas() -> Iterator[None]:
    """Who installs `.[spark]` has no pandas; nor have the tests' process, and those that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pandas", None)
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        patch.setenv("PYTHONPATH", str(WITHOUT_PANDAS), prepend=os.pathsep)
        yield


@pytest.fixture(scope="session")
def spark(without_pandas: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on this machine with two tasks at a time. Its Python processes import tests.support, too."""
    folder = tmp_path_factory.mktemp("spark")
    session = build_session(
        "lockgate tests",
        master="local[2]",
        configs={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
        },
    )
    yield session
    session.stop()
