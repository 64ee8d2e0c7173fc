"""The client's message of OAUTHBEARER (RFC 7628, section 3.1): the token in it, and whom it wants to be. Pure."""

from __future__ import annotations

import re
from typing import Final

# A GS2 header without channel binding, perhaps with an authorisation identity; then key=value pairs, each with \x01
# behind it, and one more \x01.
_MESSAGE: Final = re.compile(rb"n,(?:a=([^,\x01]*))?,\x01((?:[A-Za-z]+=[^\x01]*\x01)*)\x01")
_BEARER: Final = re.compile(rb"auth=[Bb]earer +([A-Za-z0-9._~+/=-]+)")
MAX_TOKEN: Final = 65_536  # characters


def bearer_of(message: bytes) -> tuple[str, str]:
    """The token, and the authorisation identity ('': the token's own). Raises ValueError: one line for the client."""
    found = _MESSAGE.fullmatch(message)
    if found is None:
        raise ValueError("not a message of OAUTHBEARER")
    for pair in found[2].split(b"\x01"):
        token = _BEARER.fullmatch(pair)
        if token is not None and len(token[1]) <= MAX_TOKEN:
            asked = (found[1] or b"").decode("utf-8", "replace").replace("=2C", ",").replace("=3D", "=")
            return token[1].decode("ascii"), asked
    raise ValueError("a message of OAUTHBEARER without a bearer token")
