"""Mirror topics that a link creates by itself, between real clusters: a sentence of docs/guides/auto-create.md each."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from gateway.devcluster import DevCluster
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import create_topic, log_ends, read_logs
from tests.support.brokers.secured_cluster import DESCRIBE, DESCRIBE_CONFIGS, READ, SECURED, TOPIC, Acls, inside, login
from tests.support.clients.writer import Writer
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

WITHIN_S = 60.0
ROUND_MS = "1000"


@pytest.fixture(scope="module")
def gateway(target: DevCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """Before the target, for all tests of this file."""
    os.environ["LOCKGATE_LINK_ALICE"] = "alice"
    yield from _running(
        GatewayProcess(
            tmp_path_factory.mktemp("gateway"), target.bootstrap, links={"variables": ["LOCKGATE_LINK_ALICE"]}
        )
    )
    del os.environ["LOCKGATE_LINK_ALICE"]


def _running(made: GatewayProcess) -> Iterator[GatewayProcess]:
    try:
        made.start()
        yield made
    finally:
        made.close()
        print(made.log.read_text(errors="replace")[-6000:])  # noqa: T201 - shown when a test failed


class Link:
    """A link that creates mirror topics every second, by filters (name, pattern, kind)."""

    def __init__(
        self, gateway: GatewayProcess, source: str, *filters: tuple[str, str, str], name: str = "", **configs: str
    ) -> None:
        keys = ("name", "patternType", "filterType")
        text = json.dumps({"topicFilters": [dict(zip(keys, one, strict=True)) for one in filters]})
        self.gateway, self.name = gateway, name or f"l-{uuid.uuid4().hex[:8]}"
        self.gateway.create_link(
            self.name,
            source,
            metadata_max_age_ms=ROUND_MS,
            auto_create_mirror_topics_enable="true",
            auto_create_mirror_topics_filters=text,
            **configs,
        )

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.gateway.delete_link(self.name)

    def mirrors(self) -> dict[str, str]:
        """State by mirror topic."""
        data = self.gateway.api.get(f"/v3/links/{self.name}/mirrors").json()["data"]
        return {one["mirror_topic_name"]: one["mirror_status"] for one in data}

    def candidates(self) -> dict[str, Any]:
        """What `mirror candidates` shows, by source topic."""
        answer = self.gateway.api.get(f"/v3/links/{self.name}/candidates")
        assert answer.is_success, answer.text
        return {one["source_topic_name"]: one for one in answer.json()["data"]}

    def task(self) -> dict[str, Any]:
        """How the auto-create stands."""
        found: dict[str, Any] = self.gateway.api.get(f"/v3/links/{self.name}/candidates").json()["auto_create"]
        return found

    def until(self, *topics: str) -> None:
        """These are mirrored, and nothing else."""
        wait_until(lambda: self.mirrors() == dict.fromkeys(topics, "ACTIVE"), WITHIN_S, what=f"mirrors {topics}")


def test_what_a_filter_includes_is_mirrored_with_its_records(
    gateway: GatewayProcess, source: DevCluster, target: DevCluster, topic: str
) -> None:
    """Topics that are there, and those that come; an EXCLUDE wins."""
    create_topic(source.bootstrap, f"{topic}.a", partitions=2)
    create_topic(source.bootstrap, f"{topic}.secret", partitions=1)
    with Writer(source.bootstrap, f"{topic}.a", partitions=2, rate=200) as writer:
        writer.wait_for_acks(100)
        writer.stop()
    filters = ((topic, "PREFIXED", "INCLUDE"), (f"{topic}.secret", "LITERAL", "EXCLUDE"))
    with Link(gateway, source.bootstrap, *filters) as link:
        link.until(f"{topic}.a")
        create_topic(source.bootstrap, f"{topic}.b", partitions=1)
        link.until(f"{topic}.a", f"{topic}.b")
        ends = log_ends(source.bootstrap, f"{topic}.a", 2)
        wait_until(lambda: log_ends(target.bootstrap, f"{topic}.a", 2) == ends, WITHIN_S, what="everything copied")
        there = [[(r.offset, r.value) for r in log] for log in read_logs(source.bootstrap, f"{topic}.a", 2)]
        assert [[(r.offset, r.value) for r in log] for log in read_logs(target.bootstrap, f"{topic}.a", 2)] == there
        assert link.task()["state"] == "ACTIVE"
        shown = link.candidates()
        assert shown[f"{topic}.secret"]["reason"] == "EXCLUDED"
        assert f'"name": "{topic}.secret"' in shown[f"{topic}.secret"]["reason_detail"]
        assert shown["__consumer_offsets"]["reason"] == "INTERNAL" if "__consumer_offsets" in shown else True


def test_a_topic_that_the_target_has_stays_its_own(
    gateway: GatewayProcess, source: DevCluster, target: DevCluster, topic: str
) -> None:
    create_topic(source.bootstrap, f"{topic}.a", partitions=1)
    create_topic(source.bootstrap, f"{topic}.b", partitions=1)
    create_topic(target.bootstrap, f"{topic}.a", partitions=1)
    with Link(gateway, source.bootstrap, (topic, "PREFIXED", "INCLUDE")) as link:
        link.until(f"{topic}.b")
        assert link.candidates()[f"{topic}.a"]["reason"] == "EXISTS_ON_TARGET"


def test_a_round_creates_no_more_than_its_limit(gateway: GatewayProcess, source: DevCluster, topic: str) -> None:
    for number in range(6):
        create_topic(source.bootstrap, f"{topic}.{number}", partitions=1)
    seen: list[int] = []
    with Link(gateway, source.bootstrap, (topic, "PREFIXED", "INCLUDE"), auto_create_mirror_topics_limit="2") as link:

        def all_there() -> bool:
            seen.append(len(link.mirrors()))
            return seen[-1] == 6

        wait_until(all_there, WITHIN_S, what="six mirror topics")
        assert sorted(link.mirrors()) == [f"{topic}.{number}" for number in range(6)]
    assert any(0 < count < 6 for count in seen), seen


def test_a_deleted_source_topic_is_no_candidate(gateway: GatewayProcess, source: DevCluster, topic: str) -> None:
    create_topic(source.bootstrap, f"{topic}.a", partitions=1)
    with Link(gateway, source.bootstrap, (f"{topic}.b", "LITERAL", "INCLUDE")) as link:
        assert link.candidates()[f"{topic}.a"]["reason"] == "NOT_INCLUDED"
        admin = AdminClient({"bootstrap.servers": source.bootstrap})  # it must live until the result is there
        admin.delete_topics([f"{topic}.a"])[f"{topic}.a"].result(30)
        wait_until(lambda: f"{topic}.a" not in link.candidates(), WITHIN_S, what="the topic gone")


def test_the_next_process_goes_on(gateway: GatewayProcess, source: DevCluster, topic: str) -> None:
    """It is killed between two topics; nothing but records is left of it."""
    for number in range(4):
        create_topic(source.bootstrap, f"{topic}.{number}", partitions=1)
    with Link(gateway, source.bootstrap, (topic, "PREFIXED", "INCLUDE"), auto_create_mirror_topics_limit="1") as link:
        wait_until(lambda: bool(link.mirrors()), WITHIN_S, what="the first mirror topic")
        gateway.kill()
        gateway.start()
        link.until(*(f"{topic}.{number}" for number in range(4)))


def test_with_prefixes_two_clusters_do_not_mirror_each_other_for_ever(
    gateway: GatewayProcess, source: DevCluster, target: DevCluster, topic: str, tmp_path: Path
) -> None:
    """t goes over as a.t, which comes back as no b.a.t: it is a mirror topic there."""
    create_topic(source.bootstrap, topic, partitions=1)
    for back in _running(GatewayProcess(tmp_path, source.bootstrap)):
        here = ((topic, "PREFIXED", "INCLUDE"), (f"b.a.{topic}", "LITERAL", "INCLUDE"))
        there = ((f"a.{topic}", "LITERAL", "INCLUDE"),)
        with (
            Link(gateway, source.bootstrap, *here, link_prefix="a.") as over,
            Link(back, target.bootstrap, *there, link_prefix="b.") as home,
        ):
            over.until(f"a.{topic}")
            wait_until(
                lambda: home.candidates().get(f"a.{topic}", {}).get("reason") == "MIRROR_TOPIC_ON_SOURCE", WITHIN_S
            )
            assert home.mirrors() == {}


def test_a_topic_that_the_link_may_not_read(gateway: GatewayProcess, topic: str, tmp_path: Path) -> None:
    """Who may see a topic on the source, and not read it, does not mirror it."""
    with running_cluster("secured", "3.9.1", tmp_path / "secured", properties=dict(SECURED)) as secured:
        for name in ("a", "b"):
            create_topic(inside(secured), f"{topic}.{name}", partitions=1)
        acls = Acls({"bootstrap.servers": inside(secured)})
        seen = [(TOPIC, f"{topic}.{name}", right) for name in ("a", "b") for right in (DESCRIBE, DESCRIBE_CONFIGS)]
        acls.allow("alice", *seen, (TOPIC, f"{topic}.b", READ))
        credentials = {key.replace(".", "_"): str(value) for key, value in login("alice", "").items()}
        credentials.pop("bootstrap_servers")
        credentials["sasl_password"] = "${env:LOCKGATE_LINK_ALICE}"
        filters = ((topic, "PREFIXED", "INCLUDE"),)
        unsafe = {"link_allow_unauthorized_target": "true"}
        with Link(gateway, secured.bootstrap, *filters, **unsafe, **credentials) as link:
            link.until(f"{topic}.b")
            assert link.candidates()[f"{topic}.a"]["reason"] == "NOT_READABLE"
            acls.allow("alice", (TOPIC, f"{topic}.a", READ))
            link.until(f"{topic}.a", f"{topic}.b")
