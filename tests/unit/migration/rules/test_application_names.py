"""What names alone tell of Kafka Streams and Kafka Connect."""

from __future__ import annotations

import pytest

from gateway.migration.rules.ties import (
    connect_topics,
    is_streams_internal,
    streams_application,
    streams_transactional_id,
)

APPS = {"orders", "orders-eu", "other"}
THREAD = "0a1b2c3d-0000-4000-8000-0123456789ab-1"


@pytest.mark.parametrize(
    ("name", "application"),
    [
        ("orders-counts-changelog", "orders"),
        ("orders-by-key-repartition", "orders"),
        ("orders-eu-counts-changelog", "orders-eu"),  # both fit: the longest name
        ("orderscounts-changelog", ""),
        ("nobody-counts-changelog", ""),
        ("orders-counts", ""),
    ],
)
def test_whose_internal_topic(name: str, application: str) -> None:
    assert streams_application(name, APPS) == application
    assert is_streams_internal(name) is name.endswith(("-changelog", "-repartition"))


@pytest.mark.parametrize(
    ("name", "application"),
    [
        (f"orders-{THREAD}", "orders"),
        (f"orders-eu-{THREAD}", "orders-eu"),
        ("orders-0_12", "orders"),  # the older exactly_once: a task
        ("orders-0", ""),
        (f"orders-{THREAD}-more", ""),
        (f"orders{THREAD}", ""),
        ("orders", ""),
    ],
)
def test_whose_transactional_id(name: str, application: str) -> None:
    assert streams_transactional_id(name, APPS) == application


def test_the_topics_of_a_connect_cluster() -> None:
    topics = {"east-configs", "east.offsets", "east_status", "connect-offsets", "connect-status", "eastern-configs"}
    assert connect_topics("east", topics, alone=False) == ["east-configs", "east.offsets", "east_status"]
    assert connect_topics("east", topics, alone=True) == [
        "connect-offsets",
        "connect-status",
        "east-configs",
        "east.offsets",
        "east_status",
    ]
