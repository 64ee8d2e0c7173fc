"""Names by which clients ask for brokers at one port."""

from __future__ import annotations

import pytest

from gateway.proxy.rules.server_names import ServerNames, UnknownNameError, covers

NAMES = ServerNames("kafka.example.com", "Broker-$(nodeId).kafka.example.com")


def test_a_broker_is_found_by_the_name_that_is_told_whatever_its_case() -> None:
    for node in (0, 1, 1_000, 2**31 - 1):
        assert NAMES.node_of(NAMES.host_of(node).upper()) == node
    assert NAMES.node_of("KAFKA.example.com.") is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "example.com",
        "broker-.kafka.example.com",
        "broker-01.kafka.example.com",
        "broker--1.kafka.example.com",
        "broker-2147483648.kafka.example.com",
        "broker-99999999999999999999.kafka.example.com",
        "broker-1.kafka.example.com.evil.example",
        "broker-1.x.kafka.example.com",
        "broker-\u0661.kafka.example.com",
        "xbroker-1.kafka.example.com",
        "broker-$(nodeId).kafka.example.com",
    ],
)
def test_other_names_are_nobodys(name: str) -> None:
    with pytest.raises(UnknownNameError):
        NAMES.node_of(name)


@pytest.mark.parametrize(
    ("bootstrap", "pattern", "why"),
    [
        ("kafka.example.com", "", "needs"),
        ("kafka.example.com", "broker.kafka.example.com", "needs"),
        ("kafka.example.com", "b-$(nodeId)-$(nodeId).example.com", "needs"),
        ("kafka.example.com", "b.$(nodeId).example.com", "before its first dot"),
        ("kafka.example.com", "broker-$(nodeId)", "with a domain"),
        ("kafka.example.com", "bro_ker-$(nodeId).example.com", "no host"),
        ("", "b-$(nodeId).example.com", "advertised_host: ''"),
        ("10.0.0.5", "b-$(nodeId).example.com", "advertised_host: '10.0.0.5'"),
        ("b-7.example.com", "b-$(nodeId).example.com", "a broker's name"),
    ],
)
def test_what_cannot_be_a_name_is_refused(bootstrap: str, pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match="advertised_host") as error:
        ServerNames(bootstrap, pattern)
    assert why in str(error.value)


def test_a_wildcard_covers_one_label() -> None:
    assert covers("*.kafka.example.com", "broker-1.Kafka.example.com")
    assert covers("kafka.example.com", "kafka.example.com")
    assert not covers("*.kafka.example.com", "kafka.example.com")
    assert not covers("*.example.com", "broker-1.kafka.example.com")
