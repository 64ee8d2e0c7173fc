"""A link logs in at its source by each mechanism: what it mirrors comes from a broker that knows who it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from gateway.devcluster import DevCluster
from tests.support.brokers.logs import create_topic, log_ends, read_logs
from tests.support.brokers.secured_cluster import give_scram_passwords, inside, unsigned_token
from tests.support.gateways.gateway import GatewayProcess
from tests.support.gateways.identity_scene import Scene
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]
USER = "gateway"
RECORDS = 20


@pytest.fixture(scope="module")
def gateway(
    scene: Scene, target: DevCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[GatewayProcess, Path]]:
    """Before a target that asks for no login; and the folder whose files its links may name."""
    folder = tmp_path_factory.mktemp("link-logins")
    give_scram_passwords(scene.target, USER)
    made = GatewayProcess(folder, target.bootstrap, links={"files": str(folder)})
    try:
        made.start()
        yield made, folder
    finally:
        made.close()


def configs(mechanism: str, folder: Path, secret: str) -> dict[str, str]:
    """Of a link. `secret`: the password, or the bearer token."""
    folder.mkdir(exist_ok=True)
    found = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "link.allow.unauthorized.target": "true",
    }
    if mechanism != "OAUTHBEARER":
        (folder / "link.properties").write_text(f"password={secret}\n", encoding="ascii")
        return {**found, "sasl.username": USER, "sasl.password": f"${{file:{folder}/link.properties:password}}"}
    token = folder / "token"
    token.write_text(secret, encoding="ascii")
    return {**found, "sasl.oauthbearer.token.endpoint.url": token.as_uri()}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_what_is_mirrored_is_read_under_the_links_own_login(
    scene: Scene, target: DevCluster, gateway: tuple[GatewayProcess, Path], topic: str, mechanism: str
) -> None:
    made, folder = gateway
    create_topic(inside(scene.target), topic, partitions=1)
    producer = Producer({"bootstrap.servers": inside(scene.target)})
    for number in range(RECORDS):
        producer.produce(topic, value=str(number).encode(), partition=0)
    assert producer.flush(30) == 0
    link = f"by-{mechanism.lower()}"
    source = {"bootstrap.servers": scene.target.bootstrap}

    def create(secret: str) -> Any:
        values = {**source, **configs(mechanism, folder / link, secret)}
        entries = [{"name": name, "value": value} for name, value in values.items()]
        return made.api.post("/v3/links", json={"link_name": link, "configs": entries})

    refused = create("n.o.pe")
    assert refused.status_code in (400, 502), refused.text
    assert "n.o.pe" not in refused.text
    assert "\n" not in refused.json()["message"]
    taken = create(unsigned_token(USER) if mechanism == "OAUTHBEARER" else USER)
    assert taken.is_success, taken.text
    try:
        made.create_mirror(link, topic)
        wait_until(lambda: log_ends(target.bootstrap, topic, 1) == [RECORDS], what="it is mirrored")
        (log,) = read_logs(target.bootstrap, topic, 1)
        assert [record.value for record in log] == [str(number).encode() for number in range(RECORDS)]
    finally:
        made.delete_link(link)
