"""SCRAM users and client quotas between real clusters: who had a password on the source logs in at the target again."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError

from gateway.devcluster import DevCluster
from gateway.kafka.access.quotas import describe_quotas, set_quotas
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.rules.quota import EntityType, QuotaEntityPart, QuotaKey
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import create_topic
from tests.support.brokers.quick_clusters import asked
from tests.support.brokers.secured_cluster import (
    SECURED,
    TOPIC,
    WRITE,
    Acls,
    give_scram_passwords,
    inside,
    login,
)
from tests.support.gateways.gateway import GatewayProcess
from tests.support.gateways.identity_scene import QUIET, produce
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

SECRET = "of erin, and new"
IP = QuotaEntityPart(EntityType.IP, "10.0.0.1")
USER, CLIENT = QuotaEntityPart(EntityType.USER, "erin"), QuotaEntityPart(EntityType.CLIENT_ID, "app")
QUOTAS = {
    QuotaKey((USER,), "producer_byte_rate"): 1_000_001.0,
    QuotaKey((USER, CLIENT), "consumer_byte_rate"): 2_000_000.0,
    QuotaKey((CLIENT,), "request_percentage"): 33.0,
    QuotaKey((QuotaEntityPart(EntityType.USER, None),), "producer_byte_rate"): 9_000_000.0,
    QuotaKey(
        (QuotaEntityPart(EntityType.USER, None), QuotaEntityPart(EntityType.CLIENT_ID, None)),
        "controller_mutation_rate",
    ): 2.5,
    QuotaKey((IP,), "connection_creation_rate"): 7.0,
}


class Lab(NamedTuple):
    """A link between two clusters that ask who somebody is, with a gateway before the target."""

    source: DevCluster
    target: DevCluster
    gateway: GatewayProcess
    secrets: Path

    def ask(self, cluster: DevCluster, question: Any) -> Any:
        return asked(ClusterConfig.from_client_properties({"bootstrap.servers": inside(cluster)}), question)

    def run(self, *words: str, code: int = 0) -> str:
        """`lockgate …`, with the gateway's address. Its stdout."""
        url = str(self.gateway.api.base_url)
        command = [sys.executable, "-c", self.gateway.program, *words, "--link", "west", "--url", url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("users")
    secrets = folder / "secrets" / "west"  # a link's own
    secrets.mkdir(parents=True)
    with (
        running_cluster("users-source", "3.9.1", folder, properties=dict(SECURED)) as source,
        running_cluster("users-target", "4.3.1", folder, properties=dict(SECURED)) as target,
    ):
        Acls(login("admin", target.bootstrap)).allow_a_gateway("gateway")
        properties = login("gateway", target.bootstrap)
        bootstrap = properties.pop("bootstrap.servers")
        gateway = GatewayProcess(folder, bootstrap, target=properties, links={"files": str(secrets.parent)})
        try:
            gateway.start()
            gateway.create_link("west", inside(source))
            yield Lab(source, target, gateway, secrets)
            gateway.assert_runs()
        finally:
            gateway.close()
            print(gateway.log.read_text(errors="replace")[-8000:])  # noqa: T201 - pytest shows it when a test failed


def by_scram(bootstrap: str, user: str, password: str, mechanism: str) -> dict[str, Any]:
    return login(user, bootstrap) | {"sasl.mechanism": mechanism, "sasl.password": password} | QUIET


def writes(client: dict[str, Any], topic: str) -> bool:
    return produce(client, "x", topic, 10) == [None]


def test_users_log_in_with_their_new_secrets(lab: Lab, topic: str) -> None:
    """Of both mechanisms, through the gateway and at the target itself; who has no secret is told."""
    give_scram_passwords(lab.source, "erin", "frank")
    give_scram_passwords(lab.target, "frank")  # a password of the target's own: the source's name for it is frank, too
    create_topic(inside(lab.target), topic, partitions=1)
    for who in ("erin", "frank"):
        Acls(login("admin", lab.target.bootstrap)).allow(who, (TOPIC, topic, WRITE))
    shown = lab.run("users", "plan")
    assert "+ erin SCRAM-SHA-256: MISSING" in shown
    assert "+ erin SCRAM-SHA-512: MISSING" in shown
    assert "= frank SCRAM-SHA-256: PRESENT" in shown
    assert "! not copied: FEATURE_LEVEL metadata.version" in shown

    where = f"${{dir:{lab.secrets}:*}}"
    assert "NO_SECRET" in lab.run("users", "apply", "--secrets", where, code=1)
    (lab.secrets / "erin").write_text(SECRET)
    made = lab.run("users", "apply", "--secrets", where)  # other tests have users of their own there
    assert "+ erin SCRAM-SHA-512: CREATED" in made
    assert "= frank SCRAM-SHA-512: PRESENT" in made
    for bootstrap in (lab.gateway.bootstrap, lab.target.bootstrap):
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            erin = by_scram(bootstrap, "erin", SECRET, mechanism)
            wait_until(partial(writes, erin, topic), 30, what=f"erin by {mechanism}")
    (error,) = produce(by_scram(lab.target.bootstrap, "erin", "erin", "SCRAM-SHA-256"), "x", topic, 5)
    assert error is not None
    assert error.code() in (KafkaError._AUTHENTICATION, KafkaError._MSG_TIMED_OUT)
    assert produce(by_scram(lab.target.bootstrap, "frank", "frank", "SCRAM-SHA-512"), "x", topic, 10) == [None]
    again = lab.run("users", "apply", "--secrets", where)
    assert "= erin SCRAM-SHA-512: PRESENT" in again
    assert "CREATED" not in again


def test_no_secret_is_left_behind(lab: Lab) -> None:
    give_scram_passwords(lab.source, "grace")
    command = f"{sys.executable} -c \"import os; print('hush of ' + os.environ['LOCKGATE_USER'])\""
    shown = lab.run("users", "apply", "--secret-command", command, "--user", "grace", "-o", "json")
    assert json.loads(shown)["counts"]["CREATED"] == 2
    for where in (shown, lab.gateway.log.read_text(errors="replace")):
        assert "hush" not in where
        assert SECRET not in where
        shown_of_it = re.findall(r'"salted_password": ([^,}]*)', where)
        assert set(shown_of_it) <= {'"********"'}


def test_quotas_come_with_a_factor(lab: Lab) -> None:
    lab.ask(lab.source, lambda cluster: set_quotas(cluster, QUOTAS))
    own = QuotaKey((QuotaEntityPart(EntityType.USER, "theirs"),), "producer_byte_rate")
    same = QuotaKey((CLIENT,), "request_percentage")
    lab.ask(lab.target, lambda cluster: set_quotas(cluster, {own: 5.0, same: 1.0}))

    def told() -> bool:
        return "5 MISSING, 1 DIFFERS, 1 are the target's own" in lab.run("quotas", "plan", "--factor", "0.5")

    wait_until(told, 30, what="the quotas to be known to the broker that is asked")
    counts = json.loads(lab.run("quotas", "apply", "--factor", "0.5", "-o", "json"))["counts"]
    assert (counts["SET"], counts["DIFFERS"]) == (5, 1)

    def there() -> dict[QuotaKey, float]:
        return dict(lab.ask(lab.target, describe_quotas))

    halves = {key: value / 2 for key, value in QUOTAS.items()}
    halves[QuotaKey((USER,), "producer_byte_rate")] = 500_000.0  # brokers take whole numbers
    halves[QuotaKey((IP,), "connection_creation_rate")] = 4.0
    wait_until(lambda: there() == {**halves, same: 1.0, own: 5.0}, 30, what="the quotas on the target")
    assert "1 DIFFERS" in lab.run("quotas", "apply", "--factor", "0.5")
    assert there() == {**halves, same: 1.0, own: 5.0}
    lab.run("quotas", "apply", "--factor", "0.5", "--overwrite")
    wait_until(lambda: there() == {**halves, own: 5.0}, 30, what="what was overwritten")
