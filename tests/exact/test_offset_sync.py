"""Offset sync between real clusters: the target follows, never back, never expired; and what a failover makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.clusters import running_cluster
from tests.support.clients.group_lab import GroupLab, Offset, Reader, commit, committed, fill, group_lab
from tests.support.waiting import wait_until

SYNC = {"consumer_offset_sync_enable": "true", "consumer_offset_sync_ms": "1000"}


@pytest.fixture
def lab(tmp_path: Path, source: DevCluster, target: DevCluster, topic: str) -> Iterator[GroupLab]:
    with group_lab(tmp_path, source, target, topic) as lab:
        yield lab


def offsets_on(cluster: DevCluster, group: str) -> dict[tuple[str, int], int]:
    """What the group has committed there, without metadata and epochs."""
    return {key: one.offset for key, one in committed(cluster.bootstrap, group).items()}


def wait_for_target(lab: GroupLab, group: str, offsets: dict[tuple[str, int], int], deadline: float = 60.0) -> None:
    wait_until(lambda: offsets_on(lab.target, group) == offsets, deadline, what=f"{offsets} on the target")


def metric(lab: GroupLab, name: str, group: str) -> float:
    line = f'{name}{{group="{group}",link="{lab.link}"}} '
    text = lab.gateway.api.get("/metrics").text.splitlines()
    return next(float(each.removeprefix(line)) for each in text if each.startswith(line))


def test_groups_that_never_came_are_followed_while_they_read_on_the_source(lab: GroupLab, topic: str) -> None:
    include = (
        f'{{"name":"in-{topic}","patternType":"PREFIXED","filterType":"INCLUDE"}},'
        f'{{"name":"in-{topic}-not","patternType":"LITERAL","filterType":"EXCLUDE"}}'
    )
    lab.connect(**SYNC, consumer_offset_group_filters=f'{{"groupFilters":[{include}]}}')
    lab.mirrored(topic, partitions=2, records=200)
    group, excluded, other = f"in-{topic}-1", f"in-{topic}-not", f"out-{topic}"
    for name in (excluded, other):
        commit(lab.source.bootstrap, name, {(topic, 0): Offset(10)})
    with Reader(lab.source.bootstrap, group, topic) as reader:
        reader.wait_for(200)
        wait_for_target(lab, group, {(topic, 0): 100, (topic, 1): 100})
        fill(lab.source.bootstrap, topic, 20, partitions=2, start=200)
        reader.wait_for(220)
        wait_for_target(lab, group, {(topic, 0): 110, (topic, 1): 110})
        shown = lab.group(group)
        assert (shown["state"], len(shown["members"])) == ("ACTIVE", 1)
        assert (shown["offset_sync"]["error"], shown["offset_sync"]["lag"]) == ("", 0)
        assert metric(lab, "lockgate_group_offset_sync_timestamp_seconds", group) > 0
    assert offsets_on(lab.target, excluded) == offsets_on(lab.target, other) == {}
    assert lab.state(excluded) == lab.state(other) == ""


def test_an_offset_is_cut_to_the_mirror_and_never_lowered(lab: GroupLab, topic: str) -> None:
    lab.connect(**SYNC)
    lab.mirrored(topic, records=100)
    group, mirrors = f"g-{topic}", f"/v3/links/{lab.link}/mirrors/{topic}"
    assert lab.gateway.api.post(f"{mirrors}:pause").is_success
    fill(lab.source.bootstrap, topic, 50, start=100)
    commit(lab.source.bootstrap, group, {(topic, 0): Offset(130, "m")})
    wait_for_target(lab, group, {(topic, 0): 100})
    wait_until(lambda: (lab.group(group)["offset_sync"] or {}).get("lag") == 30, 30, what="a lag of 30")
    assert lab.gateway.api.post(f"{mirrors}:resume").is_success
    wait_for_target(lab, group, {(topic, 0): 130})
    commit(lab.source.bootstrap, group, {(topic, 0): Offset(20)})  # reset on the source
    wait_until(lambda: lab.group(group)["offset_sync"]["held_back"] == [f"{topic}-0"], 30, what="it to be held back")
    assert committed(lab.target.bootstrap, group) == {(topic, 0): Offset(130, "m")}
    wait_until(lambda: lab.post(group, "promote")[0] == 200, 60, what="the promote")
    assert offsets_on(lab.target, group) == {(topic, 0): 20}  # a promote carries the exact one


def test_offsets_of_gated_groups_do_not_expire(tmp_path: Path, source: DevCluster, topic: str) -> None:
    """The target keeps offsets of groups without members for one minute. One that is not synced shows that it does."""
    properties = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "2000"}
    with (
        running_cluster("forgetful", "4.3.1", tmp_path, properties=properties) as target,
        group_lab(tmp_path, source, target, topic) as lab,
    ):
        lab.connect(**SYNC)
        lab.mirrored(topic, records=100)
        group, forgotten = f"g-{topic}", f"forgotten-{topic}"
        commit(source.bootstrap, group, {(topic, 0): Offset(40, "m")})
        wait_for_target(lab, group, {(topic, 0): 40})
        commit(target.bootstrap, forgotten, {(topic, 0): Offset(40)})
        wait_until(lambda: not committed(target.bootstrap, forgotten), 180, what="an offset to expire")
        assert committed(target.bootstrap, group) == {(topic, 0): Offset(40, "m")}


def test_a_failover_loses_little_and_says_how_much(tmp_path: Path, target: DevCluster, topic: str) -> None:
    """The source dies with the mirror behind: groups go on from their last offsets, cut to what the target has."""
    with (
        running_cluster("dying", "3.9.1", tmp_path) as source,
        group_lab(tmp_path, source, target, topic) as lab,
    ):
        lab.connect(**SYNC)
        lab.mirrored(topic, records=90)
        mirrors = f"/v3/links/{lab.link}/mirrors/{topic}"
        assert lab.gateway.api.post(f"{mirrors}:pause").is_success
        fill(source.bootstrap, topic, 10, start=90)
        ahead, behind = f"ahead-{topic}", f"behind-{topic}"
        commit(source.bootstrap, ahead, {(topic, 0): Offset(95)})
        commit(source.bootstrap, behind, {(topic, 0): Offset(80)})
        wait_for_target(lab, ahead, {(topic, 0): 90})
        wait_for_target(lab, behind, {(topic, 0): 80})
        wait_until(lambda: (lab.group(ahead)["offset_sync"] or {}).get("lag") == 5, 30, what="a lag of 5")
        source.down()

        with Reader(lab.gateway.bootstrap, ahead, topic) as first, Reader(lab.gateway.bootstrap, behind, topic) as last:
            body = {"mirror_topic_names": [topic]}
            answer = lab.gateway.api.post(f"/v3/links/{lab.link}/mirrors:failover", json=body)
            assert answer.is_success, answer.text
            lab.wait_for(ahead, "PROMOTED")
            lab.wait_for(behind, "PROMOTED")
            fill(lab.gateway.bootstrap, topic, 5, start=1000)
            first.wait_for(5)
            last.wait_for(15)
        assert first.offsets(topic) == list(range(90, 95))
        assert last.offsets(topic) == list(range(80, 95))
        note = lab.group(ahead)["note"]
        assert (
            f"{topic}-0: the group was at 95 on the source; cut to 90, where the mirrored records end: 5 record(s)"
            in note
        )
        assert "cut to" not in lab.group(behind)["note"]
