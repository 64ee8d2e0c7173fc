"""Load `many` on brokers that cannot hold so much: the first failure is told, not that of clearing away alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.errors import BenchError
from bench.production import many
from bench.production.lab import ProductionLab
from bench.stats import Sample
from bench.topics import Topics


class _Cluster:
    """Brokers that create, and do not delete any more once they hold too much."""

    def __init__(self, holds: int) -> None:
        self._holds = holds
        self.topics = 0

    def create_all(self, names: list[str], partitions: int) -> None:
        self.topics = len(names) * partitions

    def wait_in_sync(self, _names: list[str], _partitions: int) -> None:
        if self.topics > 2 * self._holds:
            raise ConnectionError("the gateway closed the connection")
        if self.topics > self._holds:
            raise BenchError("waited 300 s for replicas")

    def drop(self, *_names: str) -> None:
        if self.topics > self._holds:
            try:
                raise TimeoutError
            except TimeoutError as error:
                raise BenchError("waited 20 s for a topic to be deleted") from error


def test_what_failed_first_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "_bare", lambda _lab, _topics: _fail("no bare topics"))
    lab = SimpleNamespace(sizes=SimpleNamespace(many=(20, 40, 60)), on_source=_Cluster(20), on_target=_Cluster(0))
    said: list[Sample] = []
    with pytest.raises(BenchError) as failed:
        many.measure(cast(ProductionLab, lab), said.append)
    assert str(failed.value) == (
        "20 partitions: no bare topics; "
        "40 partitions: waited 300 s for replicas, then waited 20 s for a topic to be deleted; "
        "60 partitions: ConnectionError: the gateway closed the connection, then waited 20 s for a topic to be deleted"
    )


def test_brokers_that_do_not_delete_are_a_load_that_failed() -> None:
    class Never:
        def exception(self, timeout: float) -> None:
            raise TimeoutError

    topics = Topics.__new__(Topics)
    topics._admin = cast(Any, SimpleNamespace(delete_topics=lambda names, **_: dict.fromkeys(names, Never())))
    with pytest.raises(BenchError, match="topic orders to be deleted"):
        topics.drop("orders")


def _fail(reason: str) -> float:
    raise BenchError(reason)
