from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kafka.rules.topic_ids import topic_id_bytes, topic_id_text


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
