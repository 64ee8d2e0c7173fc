"""Share groups (KIP-932) from one cluster to another, with librdkafka's share consumer.

The group has acknowledged all up to an offset, and some records behind it. On the target it begins at that offset, and
what was acknowledged behind it comes again: as the note says, by number.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer

from gateway.devcluster import DevCluster
from gateway.kafka.share_groups import ShareStart, alter_share_offsets, share_offsets
from tests.support.brokers.logs import create_topic
from tests.support.gateways.group_sides import GroupSides, group_sides
from tests.support.gateways.identity_scene import QUIET
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

RECORDS = 40
DONE = 10
"""All before this offset are done with on the source."""
DONE_BEHIND = (12, 14)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GroupSides]:
    with group_sides(tmp_path_factory.mktemp("share"), "share") as sides:
        yield sides


def write(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap} | QUIET)
    for number in range(count):
        producer.produce(topic, value=str(number))
    assert producer.flush(30) == 0


def filled(lab: GroupSides, topic: str) -> None:
    create_topic(lab.source.bootstrap, topic, partitions=1)
    write(lab.source.bootstrap, topic, RECORDS)


def starts(lab: GroupSides, cluster: DevCluster, group: str) -> dict[tuple[str, int], ShareStart]:
    return lab.ask(cluster.bootstrap, lambda client: share_offsets(client, group))


class Member:
    """A share consumer that says of each record what becomes of it. `seen`: offsets, with how often each came."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._consumer = ShareConsumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"} | QUIET
        )
        self._consumer.subscribe([topic])
        self.seen: dict[int, int] = {}

    def poll(self, accepts: Callable[[int], bool]) -> None:
        """One batch: what is accepted is done with, the rest is given back."""
        records: list[Message] = [one for one in self._consumer.poll(1.0) if one.error() is None]
        for one in records:
            offset = one.offset()
            assert offset is not None
            self.seen[offset] = self.seen.get(offset, 0) + 1
            self._consumer.acknowledge(one, AcknowledgeType.ACCEPT if accepts(offset) else AcknowledgeType.RELEASE)
        if records:
            self._consumer.commit_sync(10.0)

    def poll_until(self, done: Callable[[], bool], accepts: Callable[[int], bool] = lambda _: True) -> None:
        """A broker stores the start offset with the acknowledgement that comes after it has moved: so once more."""
        deadline = time.monotonic() + 90
        while not done():
            assert time.monotonic() < deadline, self.seen
            self.poll(accepts)

    def close(self) -> None:
        self._consumer.close()


@contextlib.contextmanager
def member(bootstrap: str, group: str, topic: str) -> Iterator[Member]:
    found = Member(bootstrap, group, topic)
    try:
        yield found
    finally:
        found.close()


def on_source(lab: GroupSides, group: str, topic: str) -> None:
    """The group as it stands on the source: see DONE and DONE_BEHIND."""
    lab.ask(lab.source.bootstrap, lambda client: alter_share_offsets(client, group, {(topic, 0): 0}))
    with member(lab.source.bootstrap, group, topic) as reader:
        reader.poll_until(
            lambda: starts(lab, lab.source, group) == {(topic, 0): ShareStart(DONE, RECORDS - DONE - len(DONE_BEHIND))},
            lambda offset: offset < DONE or offset in DONE_BEHIND,
        )


def test_a_share_group_reads_on_where_it_was(lab: GroupSides, topic: str) -> None:
    group = f"{topic}-app"
    filled(lab, topic)
    on_source(lab, group, topic)
    lab.mirrored(topic)
    with member(lab.gateway.bootstrap, group, topic) as reader:
        with member(lab.source.bootstrap, group, topic) as old:  # somebody is still there: the group waits
            wait_until(lambda: "member(s) on the source" in lab.group(group).get("waits_for", ""), 60, what="the gate")
            old.poll(lambda _: False)
            reader.poll(lambda _: True)
            assert not reader.seen
        shown = lab.group(group)
        assert (shown["group_type"], shown["state"]) == ("SHARE", "ACTIVE")

        reader.poll_until(lambda: len(reader.seen) >= RECORDS - DONE)
    assert sorted(reader.seen) == list(range(DONE, RECORDS))
    shown = lab.group(group)
    print(shown["note"])  # noqa: T201 - what an operator sees
    assert shown["state"] == "PROMOTED"
    assert (
        f"{len(DONE_BEHIND)} records behind them were done with and are delivered again ({topic}-0: 2)" in shown["note"]
    )
    (offset,) = shown["offsets"]
    assert (offset["source_offset"], offset["target_offset"], offset["rule"]) == (DONE, DONE, "exact")
    wait_until(lambda: starts(lab, lab.target, group)[topic, 0].lag == 0, 60, what="the end")

    lab.gateway.promote("west", topic)
    wait_until(lambda: lab.gateway.mirror("west", topic)["mirror_status"] == "STOPPED", 60, what="the promote")
    write(lab.gateway.bootstrap, topic, 5)
    with member(lab.gateway.bootstrap, group, topic) as reader:
        reader.poll_until(lambda: len(reader.seen) >= 5)
        assert sorted(reader.seen) == list(range(RECORDS, RECORDS + 5))


def test_a_demoted_share_group_goes_on_at_the_source(lab: GroupSides, topic: str) -> None:
    group = f"{topic}-app"
    filled(lab, topic)
    on_source(lab, group, topic)
    lab.mirrored(topic)
    answer = lab.gateway.api.post("/v3/links/west/groups", json={"group": group})
    assert answer.status_code in (201, 409), answer.text
    wait_until(
        lambda: lab.gateway.api.post(f"/v3/links/west/groups/{group}:promote", json={}).is_success, 60, what="a promote"
    )
    assert starts(lab, lab.target, group)[topic, 0].offset == DONE
    further = DONE + 10
    with member(lab.gateway.bootstrap, group, topic) as reader:
        reader.poll_until(
            lambda: starts(lab, lab.target, group)[topic, 0].offset == further, lambda offset: offset < further
        )

    def demoted() -> bool:
        return bool(lab.gateway.api.post(f"/v3/links/west/groups/{group}:demote", json={}).is_success)

    wait_until(demoted, 60, what="a demote")
    assert starts(lab, lab.source, group)[topic, 0].offset == further
    with member(lab.gateway.bootstrap, group, topic) as reader:  # the gate is closed again
        ends = time.monotonic() + 5
        while time.monotonic() < ends:
            reader.poll(lambda _: True)
        assert not reader.seen


def test_what_is_not_mirrored_passes(lab: GroupSides, topic: str) -> None:
    """A share group of the target's own, on a topic of its own, while others are gated."""
    filled(lab, topic)
    lab.mirrored(topic)
    own = f"{topic}-own"
    create_topic(lab.target.bootstrap, own, partitions=1)
    write(lab.target.bootstrap, own, 3)
    lab.ask(lab.target.bootstrap, lambda client: alter_share_offsets(client, own, {(own, 0): 0}))
    with member(lab.gateway.bootstrap, own, own) as reader:
        reader.poll_until(lambda: len(reader.seen) >= 3)
    assert sorted(reader.seen) == [0, 1, 2]
