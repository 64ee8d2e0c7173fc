"""The PROXY protocol, for who accepts: what a load balancer says of its client before the first byte of that client.

haproxy's doc/proxy-protocol.txt, version 1 (section 2.1: a line of text) and 2 (section 2.2: binary). Whether a
listener wants a header is a setting and never guessed, and only those listed may send one: whoever else could would
choose the address that limits and logs see. Type-length-values behind the addresses are skipped, a checksum too.

A header that names no client means the load balancer itself, as its checks of health do: LOCAL, UNKNOWN, and families
other than TCP's, as the protocol allows. Pure: bytes in, sizes and addresses out.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

MOST_BYTES: Final = 2_048
"""Of a header of version 2; senders keep it below 536 (section 2.2), certificates' names besides."""

_LINE_BYTES: Final = 107  # the longest line of version 1, section 2.1
_LINE: Final = b"PROXY "
_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_FIXED: Final = 16  # bytes of version 2 before the addresses

_PORT: Final = rb"(0|[1-9][0-9]{0,4})"
_NAMED: Final = re.compile(
    rb"PROXY (?:(TCP4) ([0-9.]+) ([0-9.]+)|(TCP6) ([0-9A-Fa-f:.]+) ([0-9A-Fa-f:.]+)) " + _PORT + b" " + _PORT + b"\r\n"
)
_UNKNOWN: Final = re.compile(rb"PROXY UNKNOWN(?: [^\r\n]*)?\r\n")
_VERSION: Final = 2
_LOCAL, _PROXY = 0, 1
_ADDRESS_BYTES: Final = {0x11: 4, 0x21: 16}  # TCP over IPv4, TCP over IPv6
_FAMILIES: Final = range(4)
_TRANSPORTS: Final = range(3)


class BadHeaderError(ValueError):
    """What comes is no header of the PROXY protocol. One line."""


class Proxies:
    """Who may put a header before a connection: addresses and networks. Raises ValueError for what is neither."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = tuple(ipaddress.ip_network(each) for each in networks)

    def lists(self, host: str) -> bool:
        """Whether the peer at this address is one of them."""
        try:
            address = _plain(ipaddress.ip_address(host))
        except ValueError:
            return False
        return any(address in network for network in self._networks)


def header_size(begun: bytes) -> int:
    """How many bytes the header that begins so has; 0 while that cannot be told, and then all of these are its.

    Raises:
        BadHeaderError: none begins so; as soon as that is known.
    """
    if begun.startswith(_SIGNATURE[: len(begun)]):
        if len(begun) < _FIXED:
            return 0
        size = _FIXED + int.from_bytes(begun[_FIXED - 2 : _FIXED], "big")
        if size > MOST_BYTES:
            raise BadHeaderError(f"a PROXY header of {size} bytes (at most {MOST_BYTES})")
        return size
    if not begun.startswith(_LINE[: len(begun)]):
        raise BadHeaderError(f"no PROXY header: it begins with {begun[: len(_SIGNATURE)]!r}")
    end = begun.find(b"\r\n", 0, _LINE_BYTES)
    if end < 0 and len(begun) >= _LINE_BYTES:
        raise BadHeaderError(f"a PROXY line that does not end within {_LINE_BYTES} bytes")
    return end + 2 if end >= 0 else 0


def client_of(header: bytes) -> str:
    """The client's address in a whole header; '' when it names none, and the peer is to be taken for the client.

    Raises:
        BadHeaderError: it is not as the protocol has it.
    """
    return _of_version_2(header) if header.startswith(_SIGNATURE) else _of_line(header)


def _of_line(header: bytes) -> str:
    if _UNKNOWN.fullmatch(header):
        return ""
    found = _NAMED.fullmatch(header)
    if found is None or any(int(port) > 65_535 for port in found.group(7, 8)):
        raise BadHeaderError(f"a PROXY line that cannot be read: {header!r}")
    source, destination = (part.decode("ascii") for part in (found.group(2, 3) if found[1] else found.group(5, 6)))
    parse: Callable[[str], _Address] = ipaddress.IPv4Address if found[1] else ipaddress.IPv6Address
    try:
        parse(destination)
        return str(_plain(parse(source)))
    except ValueError:
        raise BadHeaderError(f"a PROXY line with a bad address: {header!r}") from None


def _of_version_2(header: bytes) -> str:
    version, command, family = header[12] >> 4, header[12] & 0xF, header[13]
    if version != _VERSION or command not in (_LOCAL, _PROXY):
        raise BadHeaderError(f"a PROXY header of version {version} with command {command}")
    if command == _LOCAL:
        return ""
    if family >> 4 not in _FAMILIES or family & 0xF not in _TRANSPORTS:
        raise BadHeaderError(f"a PROXY header with the family 0x{family:02x}, which does not exist")
    width = _ADDRESS_BYTES.get(family)
    if width is None:
        return ""
    if len(header) < _FIXED + 2 * width + 4:
        raise BadHeaderError(f"a PROXY header of {len(header)} bytes, too short for its addresses")
    return str(_plain(ipaddress.ip_address(header[_FIXED : _FIXED + width])))


def _plain(address: _Address) -> _Address:
    """An IPv4 address in the clothes of IPv6 is that IPv4 address."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped
