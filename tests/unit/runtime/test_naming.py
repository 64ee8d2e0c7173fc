"""Names that no two gateways share, the same over restarts."""

from __future__ import annotations

import socket

import pytest

from gateway.config.settings import Settings
from gateway.runtime.naming import name_of, peer_hosts

TARGET = {"bootstrap.servers": "t:9092"}


@pytest.fixture(autouse=True)
def host_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "box")


def settings(host: str, **fleet: str) -> Settings:
    return Settings(target=TARGET, listener={"host": host}, fleet=fleet)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("10.0.0.7", "10.0.0.7:9292"),
        ("gw.example.com", "gw.example.com:9292"),
        ("127.0.0.1", "box-127.0.0.1:9292"),
        ("localhost", "box-localhost:9292"),
        ("0.0.0.0", "box:9292"),
    ],
)
def test_the_name_is_where_it_listens_and_unique(host: str, name: str) -> None:
    assert name_of(settings(host)) == name


def test_a_name_that_was_set_counts() -> None:
    assert name_of(settings("0.0.0.0", name="one")) == "one"


@pytest.mark.parametrize(
    ("host", "fleet", "found"),
    [
        ("10.0.0.7", {}, ("10.0.0.7", "10.0.0.7")),
        ("0.0.0.0", {}, ("0.0.0.0", "box")),
        ("127.0.0.1", {"peer_host": "10.0.0.7"}, ("10.0.0.7", "10.0.0.7")),
    ],
)
def test_where_the_others_find_it(host: str, fleet: dict[str, str], found: tuple[str, str]) -> None:
    assert peer_hosts(settings(host, **fleet)) == found
