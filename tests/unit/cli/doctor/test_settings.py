"""What a gateway's settings say of places."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.doctor.settings import api_url, listener_properties, look_at_files, look_at_ports, told_hosts
from gateway.config.settings import Settings
from tests.support.identities.certificates import Certificates


def settings(**sections: Any) -> Settings:
    return Settings(**{"target": {"bootstrap.servers": "kafka:9092"}, **sections})


@pytest.mark.parametrize(
    ("api", "url"),
    [
        ({}, "http://127.0.0.1:8642"),
        ({"port": 1234}, "http://127.0.0.1:1234"),
        ({"host": "::1"}, "http://[::1]:8642"),
        ({"socket": "/run/lockgate.sock"}, "unix:/run/lockgate.sock"),
    ],
)
def test_where_the_api_is(api: dict[str, Any], url: str) -> None:
    assert api_url(settings(api=api)) == url


def test_what_clients_are_told() -> None:
    found = settings(listener={"host": "0.0.0.0", "advertised_host": "gw.example.org"})
    assert list(told_hosts(found)) == [("listener.host", "gw.example.org")]
    assert list(told_hosts(settings(listener={"host": "0.0.0.0"}))) == [("listener.host", "0.0.0.0")]


def test_who_comes_to_a_listener_has_the_targets_login_and_not_its_certificates() -> None:
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "g",
        "sasl.password": "p",
    }
    found = settings(target={"bootstrap.servers": "kafka:9092", **login})
    properties = listener_properties(found, found.listener)
    assert properties == {**login, "bootstrap.servers": "127.0.0.1:9292"}
    assert listener_properties(settings(), settings().listener)["security.protocol"] == "PLAINTEXT"


def test_ports_that_are_listened_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found = look_at_ports(
            settings(listener={"bootstrap_port": port, "base_port": port + 1}, management={"port": 9})
        )
    wanted = ["listener.bootstrap_port", "listener.base_port", "api.port", "management.port"]
    assert [one.option for one in found] == wanted
    assert found[0].error == "Address already in use"


def test_certificates_of_listeners_are_for_what_clients_are_told(tmp_path: Path) -> None:
    certificate, key = Certificates(tmp_path).server("gw", host="*.example.org")
    tls = {"certificate": str(certificate), "key": str(key)}
    listener = {
        "host": "0.0.0.0",
        "tls": tls,
        "addressing": "sni",
        "advertised_host": "kafka.example.org",
        "advertised_host_pattern": "b$(nodeId).example.org",
        "bootstrap_port": 9292,
    }
    (found,) = look_at_files(settings(listener=listener), [1, 2])
    assert (found.option, found.path) == ("listener.tls.certificate", str(certificate))
    assert found.told == ("kafka.example.org", "b1.example.org", "b2.example.org")
    assert found.certificate.names == ("*.example.org",)
