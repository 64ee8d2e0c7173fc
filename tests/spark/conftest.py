"""One Spark session for all tests of the jobs; everything in this folder is marked `spark`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gateway.jobs.session import build_session

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on this machine with two tasks at a time."""
    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYTHONPATH"] = str(ROOT)  # Spark's Python processes import tests.support too
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
