"""Which topics of a cluster are mirror topics there, by the state of the gateways before it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from gateway.kafka.connection.errors import BrokerError, ClusterUnavailable
from gateway.operations import mirrors_there
from gateway.operations.mirrors_there import MirrorsThere
from gateway.state.codec import encode, key_of
from gateway.state.reader import Entry
from gateway.state.records import MirrorDirection, MirrorState
from gateway.state.topic import TOPIC
from protocol.errors import ErrorCode
from tests.support.mirror_records import changed, mirror_record


class Cluster:
    """Has the topic, or not."""

    def __init__(self, error: int = 0, topic_id: bytes = b"1") -> None:
        self.found: Any = SimpleNamespace(error=error, topic_id=topic_id)

    async def refresh(self, topics: tuple[str, ...]) -> Any:
        assert topics == (TOPIC,)
        return SimpleNamespace(topics={} if self.found is None else {TOPIC: self.found})


class Log:
    """A state topic. What is in `news` is read once; `readers` counts those who began at its beginning."""

    news: ClassVar[list[Entry]] = []
    readers = 0
    error: Exception | None = None

    def __init__(self, _: object) -> None:
        Log.readers += 1

    async def read_to_end(self) -> list[Entry]:
        if Log.error is not None:
            raise Log.error
        found, Log.news = Log.news, []
        return found


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> type[Log]:
    Log.news, Log.readers, Log.error = [], 0, None
    monkeypatch.setattr(mirrors_there, "StateReader", Log)
    monkeypatch.setattr(mirrors_there, "LogFollower", lambda cluster, topic: None)
    return Log


def entry(topic: str, **values: Any) -> Entry:
    record = mirror_record(link="l", source_topic=topic, mirror_topic=topic, mirror_id=1)
    record = changed(record, **values)
    return Entry(0, key_of(record), encode(record))


def there(cluster: Cluster) -> MirrorsThere:
    return MirrorsThere(cluster)  # type: ignore[arg-type]


async def test_what_is_written_by_mirrors_there(log: type[Log]) -> None:
    log.news = [
        entry("active"),
        entry("failed", state=MirrorState.FAILED),
        entry("stopped", state=MirrorState.STOPPED),
        entry("back", direction=MirrorDirection.REVERSE),
        Entry(9, "writer", b"{}"),
        Entry(9, "something/new", b"{}"),
    ]
    found = there(Cluster())
    assert await found.names() == frozenset({"active", "failed"})

    log.news = [entry("active", state=MirrorState.STOPPED), Entry(10, "mirror/l/failed", None), entry("stopped")]
    assert await found.names() == frozenset({"stopped"})
    assert log.readers == 1, "only what has come is read"


async def test_a_cluster_without_gateways() -> None:
    cluster = Cluster()
    cluster.found = None
    assert await there(cluster).names() == frozenset()


async def test_what_may_not_be_read_is_not_known(log: type[Log]) -> None:
    assert await there(Cluster(int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))).names() is None
    found = there(Cluster())
    log.error = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")
    assert await found.names() is None
    log.error, log.news = None, [entry("a")]
    assert await found.names() == frozenset({"a"}), "the right was given meanwhile"


async def test_a_newer_state_is_not_known(log: type[Log]) -> None:
    log.news = [Entry(0, "mirror/l/a", b'{"v": 99}')]
    assert await there(Cluster()).names() is None


async def test_a_topic_that_was_created_again_is_read_from_its_beginning(log: type[Log]) -> None:
    cluster = Cluster()
    found = there(cluster)
    log.news = [entry("old")]
    assert await found.names() == frozenset({"old"})
    cluster.found.topic_id, log.news = b"2", [entry("new")]
    assert await found.names() == frozenset({"new"})
    assert log.readers == 2


async def test_a_topic_without_a_leader_is_no_answer() -> None:
    with pytest.raises(ClusterUnavailable, match="LEADER_NOT_AVAILABLE"):
        await there(Cluster(int(ErrorCode.LEADER_NOT_AVAILABLE))).names()
