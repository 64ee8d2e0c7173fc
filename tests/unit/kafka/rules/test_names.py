from __future__ import annotations

import pytest

from gateway.kafka.rules.names import bad_name, is_internal


@pytest.mark.parametrize("name", ["a", "orders.v1", "A_b-c.9", "x" * 249])
def test_legal(name):
    assert bad_name(name) == ""


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "x" * 250, "a\n", "a:pause"])
def test_illegal(name):
    assert bad_name(name)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__lockgate_state", "_confluent-x"])
def test_internal(topic):
    assert is_internal(topic)


def test_one_underscore_is_a_users_own():
    assert not is_internal("_schemas")
