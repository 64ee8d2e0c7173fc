"""Who a client says it is, read from its first SASL message. Nothing else of the message is kept."""

from __future__ import annotations


def principal_of(mechanism: str, message: bytes) -> str | None:
    """The user name in the first client message of a SASL exchange.

    PLAIN (RFC 4616): the authentication id. SCRAM-* (RFC 5802): the n= attribute, unescaped. None for other
    mechanisms and for a message that cannot be read: it only tells clients apart, the broker authenticates them.
    """
    name = mechanism.upper()
    if name == "PLAIN":
        return _plain(message)
    if name.startswith("SCRAM-"):
        return _scram(message)
    return None


def _plain(message: bytes) -> str | None:
    parts = message.split(b"\0")
    if len(parts) != 3:
        return None
    return _text(parts[1])


def _scram(message: bytes) -> str | None:
    # GS2 header ("n,," or "n,a=other,"), then "n=user,r=nonce" and perhaps extensions. A comma in a name is "=2C".
    parts = message.split(b",")
    if len(parts) < 4 or not parts[2].startswith(b"n="):
        return None
    name = _text(parts[2][2:])
    return None if name is None else name.replace("=2C", ",").replace("=3D", "=")


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode() or None
    except UnicodeDecodeError:
        return None
