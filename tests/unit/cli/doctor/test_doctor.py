"""`lockgate doctor`: what it prints, and its exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from gateway.cli.doctor import doctor as command
from gateway.cli.doctor import examine, rest
from gateway.cli.doctor.rest import SourceLink
from gateway.cli.output import Output
from gateway.doctor.rules.facts import GatewayFacts, Inquiry, SeenCluster
from gateway.doctor.rules.finding import bad, ok, warn
from gateway.operations.secrets.rules.references import REDACTED
from protocol.apis import ApiKey
from protocol.messages import DescribeClientQuotasResponse, DescribeClusterResponse
from tests.support.control.control_server import ControlServer
from tests.support.fakes.fake_cluster import FakeCluster
from tests.unit.cli.conftest import Run

MAY_ALL = 0x7FFF
PASSWORD = "seeded-password"


@pytest.fixture
def clusters(server: ControlServer) -> Iterator[Callable[[str], FakeCluster]]:
    """Makes clusters of one scripted broker, that run beside the server."""
    made: list[FakeCluster] = []

    def make(cluster_id: str) -> FakeCluster:
        cluster = FakeCluster()
        cluster.cluster_id = cluster_id
        cluster.on(ApiKey.DESCRIBE_CLUSTER, lambda _: of_cluster(cluster_id))
        cluster.on(ApiKey.DESCRIBE_CLIENT_QUOTAS, lambda _: no_quotas())
        server.do(cluster.__aenter__)
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        server.do(cluster.__aexit__)


def of_cluster(cluster_id: str) -> Any:
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=0,
        error_message=None,
        cluster_id=cluster_id,
        controller_id=1,
        brokers=[],
        cluster_authorized_operations=MAY_ALL,
    )


def no_quotas() -> Any:
    return DescribeClientQuotasResponse(throttle_time_ms=0, error_code=0, error_message=None, entries=[])


@pytest.fixture
def led(linked: ControlServer, monkeypatch: pytest.MonkeyPatch) -> ControlServer:
    """As `linked`, with a gateway that leads."""
    service = linked.plane.service
    told = service.status
    monkeypatch.setattr(type(service), "status", lambda self: replace(told(), leader="g"))
    return linked


def findings(text: str, what: str) -> dict[str, str]:
    """check -> level, of one."""
    return {one["check"]: one["level"] for one in json.loads(text)["findings"] if one["what"] == what}


def test_lines_remedies_and_the_count(capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        ok("cluster", "target", "id c, 3 brokers"),
        warn("tls", "source west", "certificate is over in 3 days", "renew it"),
        bad("dns", "target", "kafka-1 does not resolve", "put it into the DNS"),
    ]
    command.show(found, Output.TABLE)
    assert capsys.readouterr().out.splitlines() == [
        "OK    target       cluster  id c, 3 brokers",
        "WARN  source west  tls      certificate is over in 3 days",
        "      -> renew it",
        "FAIL  target       dns      kafka-1 does not resolve",
        "      -> put it into the DNS",
        "1 OK, 1 WARN, 1 FAIL",
    ]


def test_as_json_and_as_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    found = [warn("tls", "target", "soon over", "renew it")]
    wanted = {
        "level": "WARN",
        "findings": [{"check": "tls", "level": "WARN", "what": "target", "value": "soon over", "remedy": "renew it"}],
    }
    command.show(found, Output.JSON)
    assert json.loads(capsys.readouterr().out) == wanted
    command.show(found, Output.YAML)
    assert yaml.safe_load(capsys.readouterr().out) == wanted


def test_both_clusters_and_the_way_through(
    led: ControlServer, run: Run, clusters: Callable[[str], FakeCluster]
) -> None:
    source, target = clusters("source"), clusters("target")
    told = run(
        "doctor",
        "--source",
        source.bootstrap,
        "--target",
        target.bootstrap,
        "--through",
        target.bootstrap,
        "-o",
        "json",
    )
    assert findings(told.stdout, "target")["cluster"] == "OK"
    assert findings(told.stdout, "target")["quotas"] == "OK"
    assert findings(told.stdout, "source l")["cluster"] == "OK"
    assert findings(told.stdout, f"through {target.bootstrap}") == {"address": "OK", "listener": "OK"}
    assert findings(told.stdout, "gateway")["ready"] == "OK"


def test_a_listener_before_another_cluster_fails(
    linked: ControlServer, run: Run, clusters: Callable[[str], FakeCluster]
) -> None:
    target, other = clusters("target"), clusters("other")
    told = run("doctor", "--target", target.bootstrap, "--through", other.bootstrap, code=1).stdout
    assert "it leads to cluster other, and the target is target" in told
    assert told.splitlines()[-1].endswith("FAIL")


def test_the_topics_of_a_link_are_asked_for(
    led: ControlServer, run: Run, clusters: Callable[[str], FakeCluster]
) -> None:
    run("mirror", "create", "orders", "--link", "l")
    source = clusters("source")
    run("doctor", "--link", "l", "--source", source.bootstrap, "--topic", "more", code=0)
    asked = [[one.name for one in request.message.topics or ()] for request in source.asked(ApiKey.METADATA)]
    assert ["orders", "more"] in asked


def test_a_source_whose_secrets_are_the_gateways_is_looked_at_from_outside(
    run: Run, clusters: Callable[[str], FakeCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = clusters("source")
    client = {
        "bootstrap.servers": source.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "gateway",
        "sasl.password": REDACTED,
    }
    link = SourceLink(name="west", client=client, identity="link")
    facts = GatewayFacts(url="u", leader="g", links={"west": ("ACTIVE", "")})
    monkeypatch.setattr(examine, "look_at_gateway", lambda *_: (facts, (link,)))
    told = run("doctor", "-o", "json")
    assert findings(told.stdout, "source west") == {"link": "OK", "address": "OK", "login": "WARN"}
    assert "sasl.password is a secret that the gateway does not tell" in told.stdout
    assert source.asked(ApiKey.SASL_HANDSHAKE) == []


def test_sources_of_all_links_are_looked_at(linked: ControlServer, run: Run) -> None:
    """The link of this scene names a host that nobody has."""
    told = run("doctor", "-o", "json", code=1)
    assert findings(told.stdout, "source l")["link"] == "OK"
    assert findings(told.stdout, "source l")["dns"] == "FAIL"


def test_a_link_that_there_is_not(linked: ControlServer, run: Run) -> None:
    told = run("doctor", "--link", "none", code=1).stdout
    assert "the gateway has no such link" in told


def test_without_a_gateway(
    run: Run, clusters: Callable[[str], FakeCluster], tmp_path: Path, unused_port: Callable[[], int]
) -> None:
    """Before its first start that is a warning; who asks for it by nothing but its URL is told that it is not there."""
    target = clusters("target")
    settings = tmp_path / "gateway.yaml"
    ports = {"listener": {"bootstrap_port": unused_port(), "base_port": unused_port()}, "api": {"port": unused_port()}}
    sections = {"target": {"bootstrap.servers": target.bootstrap}, **ports}
    settings.write_text(yaml.safe_dump(sections), encoding="utf-8")
    away = ("--url", "http://127.0.0.1:1")
    told = run("doctor", "--config", str(settings), "-o", "json", *away)
    assert findings(told.stdout, "gateway") == {"gateway": "WARN"}
    assert findings(told.stdout, "target")["own topic"] == "OK"
    assert findings(told.stdout, "settings")["port"] == "OK"
    told = run("doctor", *away, code=1)
    assert "no answer from http://127.0.0.1:1" in told.stdout


def test_no_secret_is_shown(run: Run, clusters: Callable[[str], FakeCluster], tmp_path: Path) -> None:
    """The broker hangs up at the login."""
    target = clusters("target")
    settings = tmp_path / "gateway.yaml"
    login = {
        "bootstrap.servers": target.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "gateway",
        "sasl.password": PASSWORD,
    }
    settings.write_text(yaml.safe_dump({"target": login}), encoding="utf-8")
    told = run("doctor", "--config", str(settings), "--url", "http://127.0.0.1:1", code=1)
    assert "FAIL  target" in told.stdout
    assert PASSWORD not in told.stdout + told.stderr


@pytest.mark.parametrize(("host", "logs_in"), [("gw.example.org", False), ("127.0.0.1", True)])
def test_the_gateways_password_does_not_go_to_another_machine_in_the_clear(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, logs_in: bool
) -> None:
    """Something in front of the listener has the TLS there, say."""
    settings = tmp_path / "gateway.yaml"
    login = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "g",
        "sasl.password": PASSWORD,
    }
    told = {"target": {"bootstrap.servers": "127.0.0.1:1", **login}, "listener": {"advertised_host": host}}
    settings.write_text(yaml.safe_dump(told), encoding="utf-8")
    asked: list[str] = []

    async def look(name: str, _: object, inquiry: Inquiry, **__: object) -> SeenCluster:
        asked.append(name)
        return SeenCluster(name=name, asked=inquiry, error="not there")

    monkeypatch.setattr(examine, "look_at_gateway", lambda *_: (GatewayFacts(url="u", leader="g"), ()))
    monkeypatch.setattr(examine, "look_at_cluster", look)
    shown = run("doctor", "--config", str(settings), code=1).stdout
    assert any(name.startswith("through") for name in asked) is logs_in
    assert ("the gateway's own login could be read on the way" in shown) is not logs_in


@pytest.mark.parametrize("answer", [{}, [], {"checks": 3}])
def test_what_is_no_gateway_is_told(run: Run, monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=answer))
    monkeypatch.setattr(rest, "client", lambda url: httpx.Client(transport=transport, base_url=url))
    assert "is no gateway of lockgate" in run("doctor", "--url", "http://127.0.0.1:1", code=1).stdout


def test_bad_arguments(run: Run, tmp_path: Path) -> None:
    settings = tmp_path / "gateway.yaml"
    settings.write_text("target: {bootstrap.servers: a:1}\nlistner: {}\n", encoding="utf-8")
    assert f"{settings}:2: listner" in run("doctor", "--config", str(settings), code=2).stderr
    assert "neither host:port nor a file" in run("doctor", "--through", "gateway", code=2).stderr
    properties = tmp_path / "client.properties"
    properties.write_text("bootstrap.servers=a:1\nsasl.pasword=x\n", encoding="utf-8")
    assert "sasl.pasword: unknown client property" in run("doctor", "--source", str(properties), code=2).stderr
