"""Names in first SASL messages, as clients send them; nothing else is ever returned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.sasl import principal_of


@pytest.mark.parametrize(
    ("mechanism", "message", "name"),
    [
        ("PLAIN", b"\0alice\0secret", "alice"),
        ("PLAIN", b"admin\0alice\0secret", "alice"),
        ("PLAIN", "\0jürgen\0pässword".encode(), "jürgen"),
        ("plain", b"\0alice\0secret", "alice"),
        ("PLAIN", b"\0\0secret", None),
        ("PLAIN", b"alice", None),
        ("PLAIN", b"\0a\0b\0c", None),
        ("PLAIN", b"\0\xff\0secret", None),
        ("SCRAM-SHA-256", b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL", "alice"),
        ("SCRAM-SHA-512", b"n,,n=alice,r=abc", "alice"),
        ("SCRAM-SHA-512", b"n,a=admin,n=alice,r=abc", "alice"),
        ("SCRAM-SHA-512", b"n,,n=a=2Cb=3Dc,r=abc", "a,b=c"),
        ("SCRAM-SHA-512", b"n,,n=a=3D2C,r=abc", "a=2C"),
        ("SCRAM-SHA-512", b"n,,n=token-id,r=abc,tokenauth=true", "token-id"),
        ("SCRAM-SHA-512", b"n,,r=abc,n=alice", None),
        ("SCRAM-SHA-512", b"", None),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer x\x01\x01", None),
        ("GSSAPI", b"\x60\x82", None),
    ],
)
def test_names(mechanism: str, message: bytes, name: str | None) -> None:
    assert principal_of(mechanism, message) == name


@given(st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", ""]), st.binary(max_size=100))
def test_any_bytes_are_survived(mechanism: str, message: bytes) -> None:
    name = principal_of(mechanism, message)
    assert name is None or name
