"""The PROXY protocol's header: read from whole ones and beginnings, and refused as soon as it is none."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.rules.proxy_protocol import MOST_BYTES, BadHeaderError, Proxies, client_of, header_size

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
KAFKA = b"\x00\x00\x00\x17\x00\x12\x00\x03"  # how an ApiVersions begins
TLS = b"\x16\x03\x01\x02\x00\x01"  # and a ClientHello


def v2(source: str, destination: str, *, command: int = 0x21, family: int | None = None, more: bytes = b"") -> bytes:
    addresses = [ipaddress.ip_address(each) for each in (source, destination)]
    kind = 0x11 if addresses[0].version == 4 else 0x21
    body = b"".join(each.packed for each in addresses) + struct.pack(">HH", 56_324, 9_292) + more
    return SIGNATURE + bytes((command, kind if family is None else family)) + struct.pack(">H", len(body)) + body


GOOD = {
    b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n": "192.168.0.1",
    b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n": "255.255.255.255",
    b"PROXY TCP6 2001:DB8::1 ::1 0 9292\r\n": "2001:db8::1",
    b"PROXY TCP6 ::ffff:10.1.2.3 ::ffff:10.0.0.1 1 2\r\n": "10.1.2.3",
    b"PROXY TCP6 " + b" ".join([b"ffff:" * 7 + b"ffff"] * 2) + b" 65535 65535\r\n": ":".join(["ffff"] * 8),
    b"PROXY UNKNOWN\r\n": "",
    b"PROXY UNKNOWN whatever is said here\r\n": "",
    b"PROXY UNKNOWN " + b" ".join([b"ffff:" * 7 + b"ffff"] * 2) + b" 65535 65535\r\n": "",
    v2("192.168.0.1", "192.168.0.11"): "192.168.0.1",
    v2("2001:db8::1", "::1"): "2001:db8::1",
    v2("::ffff:10.1.2.3", "::1"): "10.1.2.3",
    v2("10.1.2.3", "10.0.0.1", more=b"\x04\x00\x03abc" * 40): "10.1.2.3",
    v2("10.1.2.3", "10.0.0.1", command=0x20): "",  # LOCAL: a check of the load balancer's own
    v2("10.1.2.3", "10.0.0.1", family=0x12): "",  # UDP
    SIGNATURE + b"\x21\x31" + struct.pack(">H", 216) + b"/run/a".ljust(108, b"\0") * 2: "",
    SIGNATURE + b"\x20\x00\x00\x00": "",
    SIGNATURE + b"\x21\x00\x00\x00": "",
}


@pytest.mark.parametrize("header", GOOD)
def test_the_client_is_who_the_header_names(header: bytes) -> None:
    assert header_size(header) == len(header)
    assert header_size(header + KAFKA) == len(header)
    assert client_of(header) == GOOD[header]


@pytest.mark.parametrize("header", GOOD)
def test_every_beginning_waits_for_the_rest_and_takes_no_byte_of_what_follows(header: bytes) -> None:
    for end in range(len(header)):
        assert header_size(header[:end]) in (0, len(header))
        assert header_size(header[:end]) == 0 or end >= 16


@pytest.mark.parametrize(
    "begun",
    [
        KAFKA[:1],
        TLS[:1],
        b"GET / HTTP/1.1\r\n",
        b"PROXX",
        b"proxy TCP4 ",
        b"\r\n\r\n\x00\r\nQUIT\r",
        b"PROXY TCP4 " + b"1" * 96,
        b"PROXY UNKNOWN " + b"f" * 92 + b"\r\n",  # ends one byte too late
        SIGNATURE + b"\x21\x11" + struct.pack(">H", MOST_BYTES - 15),
        SIGNATURE + b"\x21\x11\xff\xff",
    ],
)
def test_what_is_no_header_is_refused_at_once(begun: bytes) -> None:
    with pytest.raises(BadHeaderError):
        header_size(begun)


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY \r\n",
        b"PROXY TCP4\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
        b"PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n",
        b"PROXY TCP4 01.2.3.4 1.2.3.4 1 2\r\n",
        b"PROXY TCP4 1.2.3.256 1.2.3.4 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3 1 2\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n",
        b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 1 02\r\n",
        b"PROXY UNKNOWNX\r\n",
        b"PROXY UNKNOWN \n\r\n",
        b"PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n",
        v2("10.1.2.3", "10.0.0.1", command=0x11),
        v2("10.1.2.3", "10.0.0.1", command=0x22),
        v2("10.1.2.3", "10.0.0.1", family=0x41),
        v2("10.1.2.3", "10.0.0.1", family=0x13),
        v2("10.1.2.3", "10.0.0.1", family=0x21),  # 12 bytes where IPv6 has 36
        SIGNATURE + b"\x21\x11\x00\x00",
    ],
)
def test_what_the_protocol_does_not_have_is_refused(header: bytes) -> None:
    assert header_size(header) == len(header)
    with pytest.raises(BadHeaderError):
        client_of(header)


@given(st.sampled_from([b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE, SIGNATURE + b"\x21\x11"]), st.binary(max_size=300))
def test_anything_is_a_header_or_refused(start: bytes, rest: bytes) -> None:
    data = start + rest
    try:
        size = header_size(data)
        if 0 < size <= len(data):
            client_of(data[:size])
    except BadHeaderError:
        return
    assert size <= MOST_BYTES


def test_who_may_send_one() -> None:
    proxies = Proxies(["10.0.0.5", "192.168.0.0/16", "2001:db8::/32"])
    for listed in ("10.0.0.5", "::ffff:10.0.0.5", "192.168.77.1", "2001:db8::9"):
        assert proxies.lists(listed)
    for other in ("10.0.0.6", "::1", "2001:db9::9", "", "unix"):
        assert not proxies.lists(other)
    with pytest.raises(ValueError, match="host bits"):
        Proxies(["10.0.0.5/8"])
