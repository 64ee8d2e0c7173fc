"""Links both ways for different topics, and loops, which are refused when they would be made."""

from __future__ import annotations

from pathlib import Path

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import assert_equal, create_topic, read_logs
from tests.support.brokers.topologies import NOT_WRITTEN, PARTITIONS, assert_each_is_there, gateways, same_logs, writer


def test_both_ways_for_different_topics(tmp_path: Path, third: DevCluster, target: DevCluster, topic: str) -> None:
    """x from A to B and y from B to A, each with the gateway before its target; both are promoted."""
    x, y = f"x-{topic}", f"y-{topic}"
    create_topic(third.bootstrap, x, partitions=PARTITIONS)
    create_topic(target.bootstrap, y, partitions=PARTITIONS)
    with gateways(tmp_path, at_a=third, at_b=target) as before:
        at_a, at_b = before["at_a"], before["at_b"]
        at_b.link("to-b", third.bootstrap)
        at_a.link("to-a", target.bootstrap)
        at_b.mirror("to-b", x)
        at_a.mirror("to-a", y)
        with writer(at_b.bootstrap, x) as of_x, writer(at_a.bootstrap, y) as of_y:
            of_x.wait_for_acks(100)
            of_y.wait_for_acks(100)
            at_b.promote("to-b", x)
            at_a.promote("to-a", y)
            of_x.wait_for_acks(100)
            of_y.wait_for_acks(100)
        for name, old, new, each in ((x, third, target, of_x), (y, target, third, of_y)):
            logs = read_logs(new.bootstrap, name, PARTITIONS)
            assert_each_is_there(logs, each)
            first = read_logs(old.bootstrap, name, PARTITIONS)
            assert_equal(first, [log[: len(first[index])] for index, log in enumerate(logs)])


def test_a_loop_is_refused_when_it_would_be_made(
    tmp_path: Path, source: DevCluster, third: DevCluster, target: DevCluster, topic: str
) -> None:
    """A ↔ B of one topic, with and without a prefix, and A → B → C → A; nothing of it changes the mirrors there are."""
    create_topic(third.bootstrap, topic, partitions=PARTITIONS)
    with gateways(tmp_path, at_a=third, at_b=target, at_c=source) as before:
        at_a, at_b, at_c = before["at_a"], before["at_b"], before["at_c"]
        at_b.link("a-b", third.bootstrap)
        at_b.mirror("a-b", topic)
        at_c.link("b-c", target.bootstrap, link_client_topic_filters=NOT_WRITTEN)
        at_c.mirror("b-c", topic)
        with writer(at_b.bootstrap, topic) as one:
            one.wait_for_acks(50)
            at_a.link("b-a", target.bootstrap)
            at_a.link("b-a-prefix", target.bootstrap, link_prefix="b.")
            at_a.link("c-a", source.bootstrap, link_client_topic_filters=NOT_WRITTEN, link_prefix="c.")
            for link in ("b-a", "b-a-prefix", "c-a"):
                assert "it would be a loop" in at_a.refusal(link, topic), link
            one.wait_for_acks(50)
        assert_each_is_there(same_logs({third: topic, target: topic, source: topic}), one)
