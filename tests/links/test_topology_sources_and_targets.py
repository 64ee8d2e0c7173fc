"""Two sources with one target (aggregation), and one source with two targets (fan-out)."""

from __future__ import annotations

from pathlib import Path

from gateway.devcluster import DevCluster
from gateway.state.producer_ids import is_gateway_issued, mirror_of
from tests.support.brokers.logs import assert_equal, create_topic, log_ends, read_logs
from tests.support.brokers.topologies import (
    PARTITIONS,
    assert_each_is_there,
    gateways,
    producer_ids,
    same_logs,
    writer,
)
from tests.support.waiting import wait_until


def test_two_sources_with_topics_of_one_name(
    tmp_path: Path, source: DevCluster, third: DevCluster, target: DevCluster, topic: str
) -> None:
    """Each is written and promoted for itself, and its batches on the target name the link, and so the source."""
    west, east = f"west.{topic}", f"east.{topic}"
    for cluster in (source, third):
        create_topic(cluster.bootstrap, topic, partitions=PARTITIONS)
    with gateways(tmp_path, at_target=target) as before:
        lab = before["at_target"]
        lab.link("west", source.bootstrap, link_prefix="west.")
        lab.link("east", third.bootstrap, link_prefix="east.")
        lab.mirror("west", topic, west)
        lab.mirror("east", topic, east)
        with writer(lab.bootstrap, west) as one, writer(lab.bootstrap, east) as other:
            one.wait_for_acks(100)
            other.wait_for_acks(100)
            lab.promote("west", west)
            one.wait_for_acks(100)
            other.wait_for_acks(100)
            assert lab.describe("east", east)["mirror_status"] == "ACTIVE"
            lab.promote("east", east)
            other.wait_for_acks(100)
        for name, cluster, each in ((west, source, one), (east, third, other)):
            logs = read_logs(target.bootstrap, name, PARTITIONS)
            assert_each_is_there(logs, each)
            old = read_logs(cluster.bootstrap, topic, PARTITIONS)
            assert_equal(old, [log[: len(old[index])] for index, log in enumerate(logs)])
        tags = {}
        for name, link, cluster in ((west, "west", source), (east, "east", third)):
            shown = lab.describe(link, name)["provenance"]
            assert shown["source_cluster_id"] == cluster.spec.cluster_id
            writers = [mirror_of(each) for each in producer_ids(target, name)]
            tags[name] = {each.link_id for each in writers if each is not None}
            assert tags[name] == {shown["link_tag"]}
            assert None in writers, "what was written since is the target's own"
        assert tags[west] != tags[east]


def test_topics_of_one_name_without_a_prefix_are_refused(
    tmp_path: Path, source: DevCluster, third: DevCluster, target: DevCluster, topic: str
) -> None:
    for cluster in (source, third):
        create_topic(cluster.bootstrap, topic, partitions=PARTITIONS)
    with gateways(tmp_path, at_target=target) as before:
        lab = before["at_target"]
        lab.link("west", source.bootstrap)
        lab.link("east", third.bootstrap)
        lab.mirror("west", topic)
        assert "already a mirror topic of link 'west'" in lab.refusal("east", topic)
        assert lab.describe("west", topic)["mirror_status"] == "ACTIVE"


def test_one_source_two_targets(
    tmp_path: Path, source: DevCluster, third: DevCluster, target: DevCluster, topic: str
) -> None:
    """Idempotent producers at the gateways of both targets write to the source at once, and none of their records is
    taken for another's retry, though both targets give out the same producer ids. One target is promoted; the other
    one goes on as before."""
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    with gateways(tmp_path, one=target, other=third) as before:
        one, other = before["one"], before["other"]
        for lab in (one, other):
            lab.link("old", source.bootstrap)
            lab.mirror("old", topic)
        with writer(one.bootstrap, topic) as here, writer(other.bootstrap, topic) as there:
            here.wait_for_acks(200)
            there.wait_for_acks(200)
            there.stop()
            here.wait_for_acks(50)
            logs = None
            one.promote("old", topic)
            here.wait_for_acks(100)
        by_clients = {each for each in producer_ids(source, topic) if is_gateway_issued(each)}
        assert len(by_clients) == 2
        logs = read_logs(target.bootstrap, topic, PARTITIONS)
        assert_each_is_there(logs, here, there)
        common = same_logs({source: topic, third: topic})
        assert_equal(common, [log[: len(common[index])] for index, log in enumerate(logs)])
        with writer(other.bootstrap, topic) as again:
            again.wait_for_acks(50)
        wait_until(lambda: sum(log_ends(third.bootstrap, topic, PARTITIONS)) == sum(map(len, common)) + again.sent, 60)
        assert log_ends(target.bootstrap, topic, PARTITIONS) == [len(log) for log in logs]
