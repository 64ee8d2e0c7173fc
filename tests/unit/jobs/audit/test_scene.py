"""At the end of an audit: who gives no answer makes topics INCOMPLETE; nothing that was compared is lost for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from gateway.jobs.audit import scene as module
from gateway.jobs.audit.asked import ask
from gateway.jobs.audit.clusters import AuditCluster
from gateway.jobs.audit.scene import AuditInput, AuditOptions, changed
from gateway.jobs.errors import JobFailed
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.kafka.topic_partition import TopicPartition
from gateway.state.records import MirrorMode, MirrorRecord
from tests.audit_mutations.history import STATES, history

TOPICS = ("t", "u")


class Loops:
    """Both clusters: by their address the topics' ids; or why they cannot be reached."""

    def __init__(self, source: Mapping[str, str] | Exception, target: Mapping[str, str] | Exception) -> None:
        self._ids = {"source": source, "target": target}

    def __call__(self) -> Loops:
        return self

    def __enter__(self) -> Loops:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was opened."""

    def connect(self, properties: Mapping[str, str]) -> Any:
        found = self._ids[properties["bootstrap.servers"]]
        if isinstance(found, Exception):
            raise found
        return found

    def run(self, work: Any) -> Any:
        try:
            work.send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError("it waits")


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(self: AuditCluster) -> None:
        ids: Any = self.cluster
        self.ids |= {topic: ids[self.name(topic)] for topic in self.topics if self.name(topic) in ids}

    monkeypatch.setattr(AuditCluster, "find", find)


SAME = ({"t": "1", "u": "2"}, {"w.t": "3", "w.u": "4"})


def scene() -> AuditInput:
    facts: Any = None
    return AuditInput(facts, facts, [], {}, 0, ({"t": "1", "u": "2"}, {"t": "3", "u": "4"}))


def records() -> dict[str, MirrorRecord]:
    return {topic: history(MirrorMode.PRESERVE, STATES[0]).record for topic in TOPICS}


def options(**more: Any) -> AuditOptions:
    return AuditOptions(
        source={"bootstrap.servers": "source"},
        target={"bootstrap.servers": "target"},
        topics=TOPICS,
        names={"t": "w.t", "u": "w.u"},
        **more,
    )


def looked_at(monkeypatch: pytest.MonkeyPatch, source: Any, target: Any, **more: Any) -> dict[str, str]:
    monkeypatch.setattr(module, "Loop", Loops(source, target))
    return changed(scene(), options(**more))


def test_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    known = records()
    assert looked_at(monkeypatch, *SAME, records=known, records_now=lambda: known) == {}


def test_a_gateway_that_refuses_is_a_problem_of_each_linked_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Any:
        raise JobFailed("the gateway refuses: token expired")

    found = looked_at(monkeypatch, *SAME, records=records(), records_now=refuse)
    assert found.keys() == set(TOPICS)
    assert found["t"] == "whether the mirror is still what it was is not known: the gateway refuses: token expired"


def test_a_mirror_that_was_deleted_is_a_problem_of_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    known = records()
    found = looked_at(monkeypatch, *SAME, records=known, records_now=lambda: {"t": known["t"]})
    assert found == {"u": "the mirror was deleted while it was compared"}


def test_topics_that_were_deleted_or_created_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    found = looked_at(monkeypatch, {"u": "2"}, {"w.t": "3", "w.u": "9"})
    assert found == {
        "t": "the topic on the source was deleted while it was compared, or may not be read any more",
        "u": "the topic on the target was created anew while it was compared",
    }


@pytest.mark.parametrize(("here", "there"), [((0,), (0,)), ((0, 3), (0,)), ((0,), (0, 3))])
async def test_a_partition_that_no_cluster_names_is_asked_for_all_the_same(
    monkeypatch: pytest.MonkeyPatch, here: tuple[int, ...], there: tuple[int, ...]
) -> None:
    """What one broker's Metadata lacks is not known; it is no reason to call the topic identical without it."""

    class Side(AuditCluster):
        async def look(self) -> None:
            self.ids, self.partitions = {"t": ""}, {"t": here if self is source else there}

        async def _offsets(self, at: int, some: object) -> dict[TopicPartition, int]:
            return {("t", index): 0 for index in self.partitions["t"]}

        async def policies(self, lifted: object) -> dict[TopicPartition, Any]:
            return {}

        async def sizes(self) -> dict[TopicPartition, int]:
            return {}

    class Maps:
        async def read(self, *_: object) -> dict[TopicPartition, Any]:
            return {}

    record = records()["t"]
    record = replace(record, starts=record.starts * 3)
    source, target = Side(cast(Any, "S"), ["t"]), Side(cast(Any, "T"), ["t"])
    asked = AuditOptions(source={}, target={}, topics=["t"], records={"t": record}, wait_s=0)
    facts, _, _ = await module._Gathering(asked, source, target, cast(Any, Maps()), lambda _: None).run()
    assert [one.partition for one in facts] == list(range(max(3, *(index + 1 for index in here + there))))
    assert all(ask(one).problems for one in facts[1:])


def test_a_cluster_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    found = looked_at(monkeypatch, SAME[0], ClusterUnavailable("no broker answered"))
    assert found.keys() == set(TOPICS)
    assert found["u"].endswith("the topic on the target is still the same is not known: no broker answered")
