"""Another fleet's state topic: read once, then what came since; and what cannot be seen is None."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from gateway.kafka.cluster import BrokerError, ClusterUnavailable
from gateway.kafka.view import ClusterView, PartitionView, TopicView
from gateway.operations import fleet_state
from gateway.operations.fleet_state import FleetState
from gateway.state.codec import Record, StateFormatError, encode, key_of
from gateway.state.records import GroupRecord, LinkRecord, MirrorDirection, MirrorRecord, MirrorState
from gateway.state.topic import TOPIC
from protocol.errors import ErrorCode
from tests.support.control.mirror_records import changed

LINK = LinkRecord(name="l", link_id=1, source_cluster_id="A", client={})


def mirror(link: str = "l", topic: str = "t", **values: Any) -> MirrorRecord:
    return changed(MirrorRecord(link=link, source_topic=topic, mirror_topic=topic, mirror_id=1), **values)


class Log:
    """A state topic of which each answer has one more record. Stands in for `LogFollower`."""

    entries: ClassVar[list[tuple[str, bytes | None]]] = []
    error: BrokerError | None = None
    reads = 0
    made: ClassVar[list[Log]] = []

    def __init__(self, _cluster: Any, _topic: str) -> None:
        self.position = 0
        self.at_end = False
        self.is_late = False
        Log.made.append(self)

    async def read(self, _wait_s: float) -> list[Any]:
        Log.reads += 1
        if Log.error is not None:
            raise Log.error
        found = Log.entries[self.position : self.position + 1]
        self.position += len(found)
        self.at_end = self.position == len(Log.entries)
        return [
            SimpleNamespace(offset=self.position, key=key.encode(), value=value, headers=()) for key, value in found
        ]


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes | None]]:
    monkeypatch.setattr(fleet_state, "LogFollower", Log)
    Log.entries, Log.error, Log.reads, Log.made = [], None, 0, []
    return Log.entries


class Cluster:
    def __init__(self) -> None:
        self.topic: TopicView | None = TopicView(b"1" * 16, {0: PartitionView(1, 0, (1,), 0)})

    async def refresh(self, _topics: Any) -> ClusterView:
        return ClusterView(topics={} if self.topic is None else {TOPIC: self.topic})


def put(*records: Record) -> None:
    Log.entries += [(key_of(record), encode(record)) for record in records]


async def test_links_and_mirrors_are_read_and_what_comes_later_too(topic: list[Any]) -> None:
    state = FleetState(cast("Any", Cluster()))
    put(LINK, mirror(), GroupRecord(link="l", group="g"))
    found = await state.now()
    assert found is not None
    assert (dict(found.links), dict(found.mirrors)) == ({"l": LINK}, {"t": mirror()})
    reads = Log.reads
    put(mirror(topic="u"))
    topic.append(("mirror/l/t", None))
    found = await state.now()
    assert found is not None
    assert dict(found.mirrors) == {"u": mirror(topic="u")}
    assert Log.reads == reads + 2, "only what came since"


async def test_a_topic_that_went_to_another_link_is_that_ones(topic: list[Any]) -> None:
    state = FleetState(cast("Any", Cluster()))
    put(LINK, mirror("l"), mirror("m"))
    topic.append(("mirror/l/t", None))
    found = await state.now()
    assert found is not None
    assert found.mirrors["t"].link == "m"


@pytest.mark.usefixtures("topic")
async def test_no_topic_none_to_see_and_none_to_read_are_none() -> None:
    cluster = Cluster()
    state = FleetState(cast("Any", cluster))
    put(LINK)
    Log.error = BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not to be read")
    assert await state.now() is None
    Log.error = BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, "gone")
    with pytest.raises(BrokerError):
        await state.now()
    Log.error = None
    assert await state.now() is not None
    cluster.topic = TopicView(bytes(16), {}, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert await state.now() is None
    cluster.topic = None
    assert await state.now() is None


@pytest.mark.usefixtures("topic")
async def test_another_topic_of_the_name_is_read_from_its_beginning() -> None:
    cluster = Cluster()
    state = FleetState(cast("Any", cluster))
    put(LINK, mirror())
    await state.now()
    cluster.topic = TopicView(b"2" * 16, {0: PartitionView(1, 0, (1,), 0)})
    Log.entries.clear()
    found = await state.now()
    assert found is not None
    assert (dict(found.links), dict(found.mirrors)) == ({}, {})


async def test_which_topics_are_mirror_topics_there(topic: list[Any]) -> None:
    state = FleetState(cast("Any", Cluster()))
    put(
        mirror(topic="active"),
        mirror(topic="failed", state=MirrorState.FAILED),
        mirror(topic="stopped", state=MirrorState.STOPPED),
        mirror(topic="back", direction=MirrorDirection.REVERSE),
    )
    topic += [("writer", b"{}"), ("something/new", b"{}")]
    assert await state.mirror_topics() == frozenset({"active", "failed"})

    put(mirror(topic="active", state=MirrorState.STOPPED), mirror(topic="stopped"))
    topic.append(("mirror/l/failed", None))
    assert await state.mirror_topics() == frozenset({"stopped"})


@pytest.mark.usefixtures("topic")
async def test_no_fleet_has_no_mirror_topics_and_one_that_may_not_be_read_is_not_known() -> None:
    cluster = Cluster()
    state = FleetState(cast("Any", cluster))
    put(mirror())
    there, cluster.topic = cluster.topic, None
    assert await state.mirror_topics() == frozenset()
    cluster.topic = TopicView(bytes(16), {}, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert await state.mirror_topics() is None
    cluster.topic, Log.error = there, BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")
    assert await state.mirror_topics() is None
    Log.error = None
    assert await state.mirror_topics() == frozenset({"t"}), "the right was given meanwhile"


async def test_what_a_newer_version_wrote_is_not_known_however_often_it_is_read(topic: list[Any]) -> None:
    state = FleetState(cast("Any", Cluster()))
    topic.append(("mirror/l/a", b'{"v": 99}'))
    put(mirror())
    for _ in range(2):
        with pytest.raises(StateFormatError):
            await state.now()
        assert await state.mirror_topics() is None


async def test_a_topic_without_a_leader_is_no_answer() -> None:
    cluster = Cluster()
    cluster.topic = TopicView(bytes(16), {}, int(ErrorCode.LEADER_NOT_AVAILABLE))
    with pytest.raises(ClusterUnavailable, match="LEADER_NOT_AVAILABLE"):
        await FleetState(cast("Any", cluster)).mirror_topics()


async def test_what_was_looked_at_long_ago_is_read_anew(topic: list[Any]) -> None:
    """What was deleted meanwhile may not be told any more: the cleaner removes deletions, too."""
    state = FleetState(cast("Any", Cluster()))
    put(LINK, mirror(), mirror(topic="u"))
    await state.now()
    Log.made[-1].is_late = True
    Log.entries.pop(1)
    found = await state.now()
    assert found is not None
    assert set(found.mirrors) == {"u"}
