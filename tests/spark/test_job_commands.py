"""`lockgate job audit`, `translate-offsets` and `plan` as they are typed: exit codes, reports, dry runs, --link."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from gateway.devcluster import DevCluster
from gateway.jobs.kafka import ask
from gateway.kafka.commits import commit_offsets, committed_offsets
from tests.support.brokers.logs import create_topic, log_ends
from tests.support.gateways.gateway import GatewayProcess
from tests.support.jobs.spark_lab import produce
from tests.support.waiting import wait_until

PARTITIONS = 2
RECORDS = 200


@dataclass(frozen=True, slots=True)
class Scene:
    """A topic that a gateway has mirrored, and a group with offsets on the source."""

    gateway: GatewayProcess
    source: DevCluster
    target: DevCluster
    link: str
    topic: str
    group: str


@pytest.fixture(scope="module")
def scene(source: DevCluster, target: DevCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    name = uuid.uuid4().hex[:8]
    gateway = GatewayProcess(tmp_path_factory.mktemp("gateway"), target.bootstrap)
    gateway.start()
    made = Scene(gateway, source, target, f"link-{name}", f"jobs-{name}", f"group-{name}")
    create_topic(source.bootstrap, made.topic, partitions=PARTITIONS)
    produce(source.bootstrap, made.topic, PARTITIONS, RECORDS)
    gateway.create_link(made.link, source.bootstrap)
    gateway.create_mirror(made.link, made.topic)
    ends = log_ends(source.bootstrap, made.topic, PARTITIONS)
    wait_until(lambda: log_ends(target.bootstrap, made.topic, PARTITIONS) == ends, 60, what="the mirror to be level")
    offsets = {(made.topic, 0): 30, (made.topic, 1): 100}
    ask({"bootstrap.servers": source.bootstrap}, lambda cluster: commit_offsets(cluster, made.group, offsets))
    yield made
    gateway.delete_link(made.link)
    gateway.close()


def job(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from gateway.cli.main import main; main()", "job", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def linked(scene: Scene) -> tuple[str, ...]:
    return ("--link", scene.link, "--url", str(scene.gateway.api.base_url), "--master", "local[2]")


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_audit_of_a_link(scene: Scene, tmp_path: Path) -> None:
    report, page = tmp_path / "audit.json", tmp_path / "audit.html"

    done = job("audit", *linked(scene), "--report", str(report), "--html", str(page))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "IDENTICAL up to offset 100" in done.stdout
    found = load(report)
    assert (found["verdict"], found["topics"], found["totals"]["compared"]) == (
        "IDENTICAL",
        [scene.topic],
        RECORDS,
    )
    assert found["source"]["cluster_id"] == scene.source.spec.cluster_id
    assert "IDENTICAL" in page.read_text()


def test_audit_that_finds_a_difference_ends_with_1(scene: Scene) -> None:
    topic = f"other-{scene.topic}"
    for cluster, size in ((scene.source, 10), (scene.target, 11)):
        create_topic(cluster.bootstrap, topic, partitions=1)
        produce(cluster.bootstrap, topic, 1, 5, size=size)

    both = ("--source", scene.source.bootstrap, "--target", scene.target.bootstrap)
    done = job("audit", topic, *both, "--master", "local[2]")

    assert done.returncode == 1, done.stdout + done.stderr
    assert "DIFFERENT at offset 0" in done.stdout


def test_an_audit_by_a_map_of_another_topic_is_incomplete(scene: Scene, tmp_path: Path) -> None:
    offset_map = tmp_path / "map.csv"
    offset_map.write_text(f"topic,partition,source_base,target_base,count\n{scene.topic}x,0,0,0,100\n")
    both = ("--source", scene.source.bootstrap, "--target", scene.target.bootstrap, "--map", str(offset_map))

    done = job("audit", scene.topic, *both, "--master", "local[2]")

    assert done.returncode == 4, done.stdout + done.stderr
    assert "it is not in the offset map" in done.stdout


def test_a_link_that_the_gateway_does_not_have_is_no_difference(scene: Scene) -> None:
    done = job("audit", "--link", "nobody", "--url", str(scene.gateway.api.base_url))

    assert done.returncode == 4, done.stdout + done.stderr


def test_a_dry_run_of_an_audit_reads_nothing(scene: Scene, tmp_path: Path) -> None:
    report = tmp_path / "audit.json"

    done = job("audit", scene.topic, *linked(scene), "--dry-run", "--report", str(report))

    assert done.returncode == 0, done.stderr
    assert "0..100" in done.stdout
    assert not report.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("audit",), 2, "an audit needs topics, --source and --target, or a --link"),
        (("audit", "t", "--source", "nowhere", "--target", "127.0.0.1:1"), 2, "nowhere: neither host:port nor a file"),
        (("audit", "t", "--link", "l", "--url", "http://127.0.0.1:1"), 3, "is `lockgate serve` running?"),
        (("audit", "t", "--source", "127.0.0.1:1", "--target", "127.0.0.1:1", "--fraction", "2"), 2, "--fraction 2"),
        (("translate-offsets", "--target", "127.0.0.1:1"), 2, "--source is missing"),
        (("translate-offsets", "--source", "127.0.0.1:1"), 2, "--target is missing"),
        (("translate-offsets", "--link", "l", "--mm2", "a"), 2, "--mm2 goes with --source and --target"),
        (("translate-offsets", "--target", "h:1", "--mm2", "a", "--offsets", "f.csv"), 2, "are two ways; take one"),
        (("plan", "--source", "127.0.0.1:1", "--streams", "0"), 2, "--streams at least 1"),
    ],
)
def test_wrong_usage_is_one_line(arguments: tuple[str, ...], code: int, words: str) -> None:
    done = job(*arguments)

    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_translate_offsets_of_a_link(scene: Scene, tmp_path: Path) -> None:
    report = tmp_path / "translate.json"
    wanted = ("translate-offsets", *linked(scene), "--group", scene.group, "--commit", "--report", str(report))

    def held() -> dict[tuple[str, int], int]:
        properties = {"bootstrap.servers": scene.target.bootstrap}
        found = ask(properties, lambda cluster: committed_offsets(cluster, scene.group))
        return {key: value.offset for key, value in found.items()}

    tried = job(*wanted, "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert held() == {}

    done = job(*wanted)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "on the target: committed 2" in done.stderr
    assert held() == {(scene.topic, 0): 30, (scene.topic, 1): 100}
    found = load(report)
    assert (found["groups_exact"], found["outcomes"]) == (1, {"committed": 2})


def test_a_group_that_the_source_lacks(scene: Scene) -> None:
    done = job("translate-offsets", *linked(scene), "--group", "nobody")

    assert done.returncode == 2, done.stdout + done.stderr
    assert "error: the cluster has no group nobody" in done.stderr


def test_plan(scene: Scene, tmp_path: Path) -> None:
    report = tmp_path / "plan.json"

    done = job("plan", scene.topic, "--source", scene.source.bootstrap, "--measure", "0.2", "--report", str(report))

    assert done.returncode == 0, done.stdout + done.stderr
    assert scene.topic in done.stdout
    assert scene.group in done.stdout
    found = load(report)
    assert [topic["name"] for topic in found["topics"]] == [scene.topic]


def test_a_plan_asks_the_target_and_measures_it(scene: Scene, tmp_path: Path) -> None:
    report = tmp_path / "plan.json"
    both = ("plan", scene.topic, "--source", scene.source.bootstrap, "--target", scene.target.bootstrap)
    before = topics(scene.target)

    done = job(*both, "--prefix", "west.", "--measure", "1", "--measure-writes", "--report", str(report))

    assert done.returncode == 0, done.stdout + done.stderr
    assert load(report)["catch_up"]["written_bytes_per_s"] > 0
    assert topics(scene.target) == before, "the topic that was measured with is still there"
    bad = job(*both, "--prefix", "w/", "--measure", "0.2")
    assert bad.returncode == 1
    assert f"blocker: {scene.topic}: the target's topic w/{scene.topic}: it would not be created" in bad.stderr


def topics(cluster: DevCluster) -> set[str]:
    found = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=30)
    return {name for name in found.topics if name.startswith("lockgate-plan-")}


def test_a_plan_of_a_cluster_that_is_not_there() -> None:
    done = job("plan", "--source", "127.0.0.1:1", "--measure", "0.1")

    assert done.returncode == 3, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
