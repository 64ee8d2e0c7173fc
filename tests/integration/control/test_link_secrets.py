"""A source that asks for a login: its password is a reference or encrypted, and nowhere to be read."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gateway.devcluster import DevCluster
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import read_logs
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

PASSWORD = "the-password-of-the-source"
SECURE = {
    "listener.security.protocol.map": (
        "PLAINTEXT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="admin" user_mover="{PASSWORD}";'
    ),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with running_cluster("guarded", "4.3.1", tmp_path_factory.mktemp("guarded"), properties=SECURE) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    """Of its own: what is encrypted there keeps gateways out that have no key."""
    with running_cluster("target", "4.3.1", tmp_path_factory.mktemp("target")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of every gateway before that target."""
    made = tmp_path_factory.mktemp("key") / "links.key"
    made.write_text(base64.b64encode(secrets.token_bytes(32)).decode(), encoding="ascii")
    made.chmod(0o600)
    return made


def link(name: str, source: DevCluster, password: str) -> dict[str, object]:
    client = {
        "bootstrap.servers": source.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "mover",
        "sasl.password": password,
        "link.allow.unauthorized.target": "true",
    }
    return {"link_name": name, "configs": [{"name": key, "value": value} for key, value in client.items()]}


def is_active(gateway: GatewayProcess, link: str) -> bool:
    shown = gateway.api.get(f"/v3/links/{link}").json()
    return (shown["link_state"], shown["link_error"]) == ("ACTIVE", "")


def test_a_login_by_reference_and_by_an_encrypted_password(
    target: DevCluster, guarded: DevCluster, topic: str, key: Path, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    by_file, given = f"file-{topic}", f"given-{topic}"
    of_link = files / by_file
    of_link.mkdir()
    (of_link / "source.properties").write_text(f"password = {PASSWORD}\n", encoding="ascii")
    reference = f"${{file:{of_link}/source.properties:password}}"
    gateway = GatewayProcess(tmp_path, target.bootstrap, links={"files": str(files), "key_file": str(key)})
    try:
        gateway.start()
        wrong = gateway.api.post("/v3/links", json=link(by_file, guarded, f"${{file:{of_link}/source.properties:no}}"))
        assert (wrong.status_code, "has no 'no'" in wrong.text) == (400, True)
        for name, password, shown in ((by_file, reference, reference), (given, PASSWORD, "********")):
            made = gateway.api.post("/v3/links", json=link(name, guarded, password))
            assert made.status_code == 201, made.text
            assert made.json()["client"]["sasl.password"] == shown

        assert gateway.stop() == 0
        gateway.start()  # it has read both from the state topic
        for name in (by_file, given):
            wait_until(partial(is_active, gateway, name), what=f"link {name} is there again")

        (state,) = read_logs(target.bootstrap, "__lockgate_state", 1)
        stored = b"".join(record.value or b"" for record in state)
        assert reference.encode() in stored
        assert b"${encrypted:" in stored
        for seen in (stored, gateway.log.read_bytes()):
            assert PASSWORD.encode() not in seen
    finally:
        for name in (by_file, given):
            gateway.delete_link(name)
        gateway.close()


def fleet_secret_is_encrypted(target: DevCluster) -> bool:
    (state,) = read_logs(target.bootstrap, "__lockgate_state", 1)
    told = [record.value or b"" for record in state if record.key == b"fleet"]
    return b"${encrypted:" in told[-1]


def test_a_gateway_without_the_key_does_not_start(target: DevCluster, key: Path, tmp_path: Path) -> None:
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
    first = GatewayProcess(tmp_path / "with", target.bootstrap, links={"key_file": str(key)})
    second = GatewayProcess(tmp_path / "without", target.bootstrap)
    try:
        first.start()
        wait_until(partial(fleet_secret_is_encrypted, target), what="the secret of the fleet is encrypted")
        assert first.stop() == 0
        refused = second.run_again()
        assert refused.returncode == 1
        assert "the fleet's secret is encrypted, and this gateway has no key: set links.key_file" in refused.stderr
    finally:
        first.close()
        second.close()
