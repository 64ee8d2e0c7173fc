"""What gateways of a fleet say to one another on the wire: JSON frames, and the proof that both know the secret.

A frame is a length (4 bytes, big-endian) and that many bytes of JSON. The two begin with::

    who accepts  {"nonce": a}
    who dials    {"name", "incarnation", "to", "nonce": b,
                  "proof": HMAC(secret, "dial", a, b, name, incarnation, to, *tls)}
    who accepts  {"name", "incarnation", "proof": HMAC(secret, "accept", a, b, name, incarnation, *tls)}

All of it goes over TLS with a certificate on either side (`fleet/peers/certificates.py`). `tls` are the fingerprints of
both, of who dials first: so nobody between the two can hand a proof on. A fleet in virtual time has no TLS, nor `tls`.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import struct
from collections.abc import Mapping
from typing import Any, Final

from gateway.kafka.connection.errors import NetError

GREETING_BYTES: Final = 4096
"""A frame before the proof."""

FRAME_BYTES: Final = 8 * 1024 * 1024
"""A frame after it."""

_SIZE: Final = struct.Struct(">I")


class MalformedPeer(NetError):
    """The other side does not speak this protocol, or is none of the fleet. The message says what was wrong."""


class TooLong(NetError, ValueError):
    """What was to be said to a peer is longer than it would take."""


def encode(message: Mapping[str, Any]) -> bytes:
    """One frame. Raises TooLong when it is longer than FRAME_BYTES."""
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) > FRAME_BYTES:
        raise TooLong(f"a message of {len(data)} bytes; at most {FRAME_BYTES} go to a peer")
    return _SIZE.pack(len(data)) + data


async def read(reader: asyncio.StreamReader, limit: int = FRAME_BYTES) -> dict[str, Any]:
    """The next frame.

    Raises:
        MalformedPeer: too long, or no JSON object.
        asyncio.IncompleteReadError, OSError: the connection ended.
    """
    (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
    if size > limit:
        raise MalformedPeer(f"a frame of {size} bytes; {limit} are allowed")
    data = await reader.readexactly(size)
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise MalformedPeer(f"a frame that is no JSON: {exc}") from exc
    if not isinstance(message, dict):
        raise MalformedPeer("a frame that is no JSON object")
    return message


def unknown_question(what: str) -> str:
    """How a gateway refuses a question that its version does not know."""
    return f"'{what}' is not known here"


def proof(secret: str, *said: str) -> str:
    """What only who knows the secret can say about these words."""
    words = "\0".join(f"{len(word)}:{word}" for word in said)
    return hmac.new(secret.encode(), words.encode(), "sha256").hexdigest()


def require_proof(message: Mapping[str, Any], secret: str, *said: str) -> None:
    """Raises MalformedPeer unless the message proves that its sender knows the secret, and there is one."""
    given = message.get("proof")
    if not isinstance(given, str):
        given = ""
    right = proof(secret, *said).encode()
    if not secret or not hmac.compare_digest(given.encode("ascii", "replace"), right):
        raise MalformedPeer("it does not know the secret of this fleet")


def text(message: Mapping[str, Any], key: str) -> str:
    """A string of a message. Raises MalformedPeer when it is missing."""
    value = message.get(key)
    if not isinstance(value, str) or not value or not value.isprintable():  # surrogates are not
        raise MalformedPeer(f"a greeting without '{key}'")
    return value
