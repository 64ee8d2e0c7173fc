from contextlib import suppress
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.jobs.translate.mm2_format import Checkpoint, OffsetSync, decode_checkpoint, decode_offset_sync
from protocol.errors import MalformedFrame

# As Kafka's own Checkpoint and OffsetSync classes write them.
KEY = bytes.fromhex("0001 67 0004 75732e74 00000003")
VALUE = bytes.fromhex("0000 0000000000000064 0000000000000058 0002 6d64")
SYNC_KEY = bytes.fromhex("0001 74 00000003")
SYNC_VALUE = bytes.fromhex("0000000000000064 0000000000000058")


def test_a_checkpoint() -> None:
    assert decode_checkpoint(KEY, VALUE) == Checkpoint("g", "us.t", 3, 100, 88, "md")
    assert decode_checkpoint(KEY, None) is None


def test_an_offset_sync() -> None:
    assert decode_offset_sync(SYNC_KEY, SYNC_VALUE) == OffsetSync("t", 3, 100, 88)
    assert decode_offset_sync(SYNC_KEY, None) == OffsetSync("t", 3, None, None)


def test_another_version_is_refused() -> None:
    with pytest.raises(MalformedFrame, match="version 1"):
        decode_checkpoint(KEY, pack(">h", 1) + VALUE[2:])


@given(st.binary(), st.binary())
def test_nothing_but_malformed(key: bytes, value: bytes) -> None:
    for decode in (decode_checkpoint, decode_offset_sync):
        with suppress(MalformedFrame):
            decode(key, value)


@pytest.mark.parametrize("cut", range(len(KEY)))
def test_cut_off(cut: int) -> None:
    with pytest.raises(MalformedFrame):
        decode_checkpoint(KEY[:cut], VALUE)
