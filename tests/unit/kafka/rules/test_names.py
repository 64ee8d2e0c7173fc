from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kafka.rules.names import bad_name, is_internal, topic_id_bytes, topic_id_text


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


@given(st.binary(min_size=16, max_size=16).filter(any))
def test_round_trip(topic_id):
    text = topic_id_text(topic_id)

    assert len(text) == 22
    assert topic_id_bytes(text) == topic_id


def test_no_id():
    assert topic_id_text(bytes(16)) == topic_id_text(b"") == ""
    assert topic_id_bytes("") == b""


def test_not_an_id():
    with pytest.raises(ValueError, match="abcd"):
        topic_id_bytes("abcd")
