"""`lockgate doctor` before real brokers: it is quiet where all is well, and what it says is missing is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.cli.main import app
from gateway.devcluster import DevCluster
from tests.support.brokers.clusters import running_cluster
from tests.support.brokers.logs import create_topic
from tests.support.brokers.secured_cluster import (
    ALL,
    CLUSTER,
    DESCRIBE_CONFIGS,
    GROUP,
    SECURED,
    TOPIC,
    TRANSACTIONAL_ID,
    Acls,
    login,
)
from tests.support.gateways.gateway import running_gateway
from tests.support.waiting import wait_until

NOBODY = "http://127.0.0.1:1"
THE_MACHINE = ("this shell", "this machine")  # its limits and its clock are not the subject here


def doctor(*arguments: str) -> tuple[int, list[dict[str, str]]]:
    """Exit code and findings."""
    done = CliRunner().invoke(app, ["doctor", *arguments, "-o", "json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, json.loads(done.stdout)["findings"]


def told(findings: list[dict[str, str]], level: str, what: str) -> list[str]:
    return [one["value"] for one in findings if (one["level"], one["what"]) == (level, what)]


def properties(folder: Path, values: dict[str, Any]) -> str:
    file = folder / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in values.items()), encoding="utf-8")
    return str(file)


def test_a_gateway_between_two_clusters_that_is_well(
    source: DevCluster, target: DevCluster, topic: str, tmp_path: Path
) -> None:
    create_topic(source.bootstrap, topic, partitions=1)
    with running_gateway(tmp_path, target.bootstrap, "doctored") as gateway:
        gateway.create_link("doctored", source.bootstrap)
        gateway.create_mirror("doctored", topic)
        config = str(next(tmp_path.glob("gateway-*.yaml")))
        code, found = doctor("--config", config)
        troubled = [one for one in found if one["level"] != "OK" and one["what"] not in THE_MACHINE]
        assert (code, troubled) == (0, [])
        checks = {(one["what"], one["check"]) for one in found}
        assert {("target", "own topic"), ("source doctored", "rights"), ("gateway", "fleet")} <= checks
        assert (f"through {gateway.bootstrap}", "listener") in checks
        assert "Kafka 3.7 to 3.9" in told(found, "OK", "source doctored")
        assert "Kafka 4.0 or later" in told(found, "OK", "target")

        code, found = doctor("--config", config, "--target", source.bootstrap, "--through", gateway.bootstrap)
        assert code == 1
        (wrong,) = told(found, "FAIL", f"through {gateway.bootstrap}")
        assert wrong.startswith("it leads to cluster")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with running_cluster("guarded", "4.3.1", tmp_path_factory.mktemp("guarded"), properties=dict(SECURED)) as cluster:
        yield cluster


@pytest.fixture
def lacking(guarded: DevCluster, tmp_path: Path) -> Callable[[], list[str]]:
    """What `alice` is told that she lacks on the target."""
    file = properties(tmp_path, login("alice", guarded.bootstrap))

    def ask() -> list[str]:
        _, found = doctor("--target", file, "--topic", "orders", "--group", "billing", "--url", NOBODY)
        return [value.partition(":")[0] for value in told(found, "FAIL", "target")]

    return ask


def test_what_a_principal_lacks_is_named_until_it_has_it(guarded: DevCluster, lacking: Callable[[], list[str]]) -> None:
    acls = Acls(login("admin", guarded.bootstrap))
    assert lacking() == [
        "Read is missing on topics __lockgate_state, __lockgate_producers",
        "Write is missing on topics __lockgate_state, __lockgate_producers",
        "DescribeConfigs is missing on topics __lockgate_state, __lockgate_producers",
        "Read is missing on topic orders",
        "Write is missing on topic orders",
        "DescribeConfigs is missing on topic orders",
        "AlterConfigs is missing on topic orders",
        "Delete is missing on topic orders",
        "Read is missing on group __lockgate.fleet",
        "Read is missing on group billing",
        "transactional id __lockgate-state",
    ]
    everything = [(TOPIC, "*", ALL), (GROUP, "*", ALL), (TRANSACTIONAL_ID, "*", ALL)]
    acls.allow("alice", *everything, (CLUSTER, "kafka-cluster", DESCRIBE_CONFIGS))
    wait_until(lambda: lacking() == [], 60.0, what="the rights")


def test_a_login_that_is_refused_is_one_line_without_the_password(guarded: DevCluster, tmp_path: Path) -> None:
    file = properties(tmp_path, {**login("alice", guarded.bootstrap), "sasl.password": "seeded-password"})
    code, found = doctor("--target", file, "--url", NOBODY)
    (refused,) = (one for one in found if one["check"] == "login")
    assert (code, refused["level"]) == (1, "FAIL")
    assert "user alice" in refused["remedy"]
    assert "seeded-password" not in json.dumps(found)
