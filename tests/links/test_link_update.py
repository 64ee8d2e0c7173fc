"""A link's password is changed while clients write: nothing is lost, and no client notices."""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from gateway.devcluster import DevCluster
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import assert_equal, assert_nothing_lost, create_topic, log_ends, read_logs
from tests.support.brokers.secured_cluster import READ, SECURED, TOPIC, Acls, inside
from tests.support.clients.writer import Writer
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

PARTITIONS = 3
USER = "mover"
REAUTHENTICATES_S = 6  # whoever has only the former password by then is out


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    properties = {**SECURED, "connections.max.reauth.ms": str(REAUTHENTICATES_S * 1000)}
    with running_cluster("guarded", "4.3.1", tmp_path_factory.mktemp("guarded"), properties=properties) as cluster:
        set_password(cluster, "first-password")
        Acls({"bootstrap.servers": inside(cluster)}).allow_a_gateway(USER)
        yield cluster


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """Of its own: what is encrypted there keeps gateways out that have no key."""
    with running_cluster("target", "4.3.1", tmp_path_factory.mktemp("target")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("key") / "links.key"
    made.write_text(base64.b64encode(secrets.token_bytes(32)).decode(), encoding="ascii")
    made.chmod(0o600)
    return made


def set_password(cluster: DevCluster, password: str) -> None:
    admin = AdminClient({"bootstrap.servers": inside(cluster)})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    changed = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, info, password=password.encode())])
    for made in changed.values():
        made.result(30)


class Scene:
    """A link that logs in by SCRAM, and a mirrored topic."""

    def __init__(self, gateways: list[GatewayProcess], source: DevCluster, target: DevCluster, topic: str) -> None:
        self.gateways, self.source, self.target, self.topic = gateways, source, target, topic
        self.link = f"link-{topic}"
        self.passwords: list[str] = []

    @property
    def api(self) -> httpx.Client:
        return next(one for one in self.gateways if one.pid is not None).api

    def begin(self, **options: str) -> None:
        password = self.new_password()
        create_topic(inside(self.source), self.topic, partitions=PARTITIONS)
        configs = {
            "bootstrap.servers": self.source.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": password,
            "link.allow.unauthorized.target": "true",
            **{name.replace("_", "."): value for name, value in options.items()},
        }
        entries = [{"name": name, "value": value} for name, value in configs.items()]
        made = self.api.post("/v3/links", json={"link_name": self.link, "configs": entries})
        assert made.status_code == 201, made.text
        self.gateways[0].create_mirror(self.link, self.topic)

    def new_password(self) -> str:
        """On the source, and nowhere else yet."""
        self.passwords.append(f"password-{secrets.token_hex(8)}")
        set_password(self.source, self.passwords[-1])
        return self.passwords[-1]

    def alter(self, **configs: str) -> httpx.Response:
        data = [{"name": name.replace("_", "."), "value": value} for name, value in configs.items()]
        return self.api.put(f"/v3/links/{self.link}/configs:alter", json={"data": data})

    def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"/v3/links/{self.link}").json()
        return found

    def mirror(self) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"/v3/links/{self.link}/mirrors/{self.topic}").json()
        return found

    def writer(self) -> Writer:
        return Writer(",".join(one.bootstrap for one in self.gateways), self.topic, partitions=PARTITIONS, rate=300)

    def ends(self) -> tuple[list[int], list[int]]:
        return tuple(log_ends(at, self.topic, PARTITIONS) for at in (inside(self.source), self.target.bootstrap))  # type: ignore[return-value]

    def assert_all_there(self, writer: Writer) -> None:
        def level() -> bool:
            source, target = self.ends()
            return source == target and sum(source) >= writer.acks

        wait_until(level, 60.0, what="equal ends on both clusters")
        logs = [read_logs(at, self.topic, PARTITIONS) for at in (inside(self.source), self.target.bootstrap)]
        assert_nothing_lost(writer, logs[0])
        assert_equal(*logs)

    def assert_secret(self) -> None:
        """No password is anywhere to be read."""
        (state,) = read_logs(self.target.bootstrap, "__lockgate_state", 1)
        shown = self.api.get(f"/v3/links/{self.link}/configs").content + self.api.get(f"/v3/links/{self.link}").content
        places = [b"".join(one.value or b"" for one in state), shown, *(one.log.read_bytes() for one in self.gateways)]
        for password in self.passwords:
            assert all(password.encode() not in place for place in places)


@pytest.fixture
def scene(
    guarded: DevCluster, target: DevCluster, key: Path, topic: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    count = getattr(request, "param", 1)
    gateways: list[GatewayProcess] = []
    for number in range(count):
        beside = gateways[0] if gateways else None
        host = f"127.0.0.{number + 1}"
        gateways.append(
            GatewayProcess(tmp_path, target.bootstrap, host=host, beside=beside, links={"key_file": str(key)})
        )
    scene = Scene(gateways, guarded, target, topic)
    try:
        for gateway in gateways:
            gateway.start()
        yield scene
    finally:
        with suppress(httpx.HTTPError, StopIteration):
            scene.api.delete(f"/v3/links/{scene.link}", params={"force": True})
        for gateway in reversed(gateways):
            gateway.close()
            print(gateway.log.read_text(errors="replace")[-6000:])  # noqa: T201 - shown when the test failed


def until_all_have_logged_in_again(writer: Writer) -> None:
    """Longer than a login lasts: who still had the former password would be out by then."""
    over = time.monotonic() + 2 * REAUTHENTICATES_S
    while time.monotonic() < over:
        writer.wait_for_acks(100)


def test_a_password_is_changed_under_load(scene: Scene) -> None:
    scene.begin()
    with scene.writer() as writer:
        writer.wait_for_acks(500)

        before = scene.shown()
        wrong = scene.alter(sasl_password="not-the-password")
        assert (wrong.status_code, "not reachable" in wrong.text) == (502, True), wrong.text
        assert scene.shown()["client"] == before["client"]
        writer.wait_for_acks(300)

        changed = scene.alter(sasl_password=scene.new_password())
        assert changed.status_code == 200, changed.text
        assert changed.json()["client"]["sasl.password"] == "********"
        until_all_have_logged_in_again(writer)
        assert scene.shown()["link_state"] == "ACTIVE"
    scene.assert_all_there(writer)
    scene.assert_secret()


@pytest.mark.parametrize("scene", [2], indirect=True)
def test_a_password_is_changed_before_several_gateways_and_the_leader_is_killed(scene: Scene) -> None:
    scene.begin()
    with scene.writer() as writer:
        writer.wait_for_acks(500)
        assert scene.alter(sasl_password=scene.new_password()).status_code == 200
        names = {one.api.get("/v3/status").json()["gateway"]: one for one in scene.gateways}
        leader = names[scene.api.get("/v3/status").json()["leader"]]
        leader.kill()
        until_all_have_logged_in_again(writer)
        wait_until(
            lambda: scene.shown().get("link_state") == "ACTIVE", 60.0, what="a leader to which the link is there"
        )
        leader.start()
    scene.assert_all_there(writer)
    scene.assert_secret()


def test_throttle_and_acknowledgement_are_changed_under_load(scene: Scene) -> None:
    scene.begin()
    with scene.writer() as writer:
        writer.wait_for_acks(300)
        for configs in ({"ack": "both"}, {"throttle_bytes_per_second": "2000000"}, {"ack": "source"}):
            changed = scene.alter(**configs)
            assert changed.status_code == 200, changed.text
            writer.wait_for_acks(300)
    scene.assert_all_there(writer)


def test_what_was_begun_with_is_not_changed(scene: Scene, target: DevCluster) -> None:
    scene.begin()
    for configs, status, words in (
        ({"link_prefix": "west."}, 400, "its mirror topics are named by it"),
        ({"mirror_offsets": "preserve"}, 400, "create another link"),
        ({"bootstrap_servers": target.bootstrap}, 400, "give it again"),
        ({"no_such": "1"}, 400, "unknown client property"),
    ):
        refused = scene.alter(**configs)
        assert (refused.status_code, words in refused.text) == (status, True), refused.text


def test_a_link_that_the_source_refuses_fails_and_comes_back(scene: Scene) -> None:
    scene.begin(cluster_link_retry_timeout_ms="5000")
    wait_until(lambda: scene.mirror()["mirror_status"] == "ACTIVE", what="the mirror")
    password = scene.new_password()  # nobody tells the link

    wait_until(lambda: scene.mirror()["mirror_status"] == "LINK_FAILED", 90.0, what="LINK_FAILED")
    shown = scene.shown()
    assert (shown["link_state"], shown["link_error_code"]) == ("FAILED", "AUTHENTICATION_ERROR")
    tasks = {one["task_name"]: one for one in scene.api.get(f"/v3/links/{scene.link}/tasks").json()["data"]}
    assert tasks["CheckAvailability"]["state"] == "IN_ERROR"
    assert tasks["CheckAvailability"]["errors"][0]["error_code"] == "AUTHENTICATION_ERROR"

    assert scene.alter(sasl_password=password).status_code == 200
    wait_until(lambda: scene.mirror()["mirror_status"] == "ACTIVE", 60.0, what="ACTIVE by itself")
    with scene.writer() as writer:
        writer.wait_for_acks(200)
    scene.assert_all_there(writer)


def test_a_topic_that_may_not_be_read_any_more_fails_after_the_retry_timeout(scene: Scene) -> None:
    scene.begin(cluster_link_retry_timeout_ms="5000")
    wait_until(lambda: scene.mirror()["readable"], what="the mirror")
    acls = Acls({"bootstrap.servers": inside(scene.source)})
    take = partial(acls.take_back, USER, TOPIC, "*")
    take(2)  # ALL
    try:
        wait_until(lambda: scene.mirror()["mirror_status"] == "FAILED", 90.0, what="FAILED")
        assert scene.mirror()["mirror_topic_error"] == "AUTHORIZATION_ERROR"
    finally:
        acls.allow(USER, (TOPIC, "*", 2), (TOPIC, "*", READ))
        acls.take_back(USER, TOPIC, "*", READ)
