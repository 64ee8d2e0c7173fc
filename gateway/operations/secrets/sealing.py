"""Secrets encrypted with a key that the gateways of a fleet have: AES-256-GCM.

What is encrypted is bound to its place (`context`): moved to another link, another property, or beside another
`bootstrap.servers`, it opens no more. So whoever can write the state topic without the key cannot have a gateway send
a password to a broker of theirs.

A key file has one key a line, 32 bytes in base64 (``openssl rand -base64 32``). The first encrypts, all decrypt: so a
key is changed by putting a new one in front, at every gateway, and taking the old one out once the links are rewritten.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.operations.secrets.rules.references import ENCRYPTED, Reference

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_ID_CHARACTERS: Final = 12


class SealingKeys:
    """Never empty. `id`: of the key that encrypts; tells nothing of it."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = {_id(key): AESGCM(key) for key in keys}
        self.id = _id(keys[0])

    @property
    def ids(self) -> tuple[str, ...]:
        """Of all keys."""
        return tuple(self._keys)

    def seal(self, secret: str, context: bytes) -> str:
        """The secret as a reference `${encrypted:KEY:TEXT}`."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._keys[self.id].encrypt(nonce, secret.encode(), context)
        return f"${{{ENCRYPTED}:{self.id}:{base64.urlsafe_b64encode(nonce + sealed).decode()}}}"

    def open(self, sealed: Reference, context: bytes) -> str:
        """The secret. Raises ValueError without it: another key, another place, or changed."""
        key = self._keys.get(sealed.path)
        if key is None:
            raise ValueError(f"is encrypted with key {sealed.path}, which links.key_file of this gateway does not have")
        try:
            raw = base64.urlsafe_b64decode(sealed.key)
            return key.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], context).decode()
        except (InvalidTag, ValueError):
            raise ValueError("was encrypted for other properties, or was changed since") from None


def keys_of(text: str) -> SealingKeys:
    """The keys in the text of a key file.

    Raises:
        ValueError: there is none, or a line is none. Says nothing of the line.
    """
    keys = []
    for number, line in enumerate(text.split(), start=1):
        try:
            key = base64.b64decode(line, validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != _KEY_BYTES:
            raise ValueError(f"line {number} is not 32 bytes in base64, as `openssl rand -base64 32` makes them")
        keys.append(key)
    if not keys:
        raise ValueError("there is no key in it; `openssl rand -base64 32` makes one")
    return SealingKeys(keys)


def _id(key: bytes) -> str:
    return hashlib.sha256(b"lockgate sealing key\0" + key).hexdigest()[:_ID_CHARACTERS]
