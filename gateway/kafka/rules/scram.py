"""SCRAM credentials as a broker keeps them (KIP-554): verifiers, made where the password is. Pure.

A cluster tells which mechanisms a user has, and how many iterations each, never the verifier: so a credential can't be
copied from one cluster to another. What a broker is sent is a salt and the password salted with it (RFC 5802), never
the password. Whoever has the salted password can log in where it was stored, so it is a secret as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

LEAST_ITERATIONS: Final = 4_096
"""RFC 7677, and the least that a broker takes."""
MOST_ITERATIONS: Final = 16_384
"""The most that a broker takes."""
SALT_BYTES: Final = 24
LONGEST_PASSWORD: Final = 4_096
"""Characters."""


class ScramMechanism(StrEnum):
    """Under the names of SASL."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


MECHANISM_CODES: Final[Mapping[ScramMechanism, int]] = {ScramMechanism.SHA_256: 1, ScramMechanism.SHA_512: 2}
MECHANISM_BY_CODE: Final[Mapping[int, ScramMechanism]] = {code: name for name, code in MECHANISM_CODES.items()}
HASHES: Final[Mapping[str, str]] = {ScramMechanism.SHA_256: "sha256", ScramMechanism.SHA_512: "sha512"}
"""By mechanism, as `hashlib` calls it."""


class ScramKey(NamedTuple):
    """One credential: a user has at most one of each mechanism."""

    user: str
    mechanism: ScramMechanism


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A verifier to be stored. `salt` and `salted_password` are shown by nobody."""

    key: ScramKey
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


def salted(key: ScramKey, iterations: int, salt: bytes, password: str) -> ScramCredential:
    """The verifier of a password. Takes some milliseconds of CPU: not for an event loop.

    Raises:
        ValueError: no password, one that is too long, or iterations that no broker takes. Says nothing of the password.
    """
    if not password:
        raise ValueError("the password is empty")
    if len(password) > LONGEST_PASSWORD:
        raise ValueError(f"the password has more than {LONGEST_PASSWORD} characters")
    if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
        raise ValueError(f"{iterations} iterations: brokers take {LEAST_ITERATIONS} to {MOST_ITERATIONS}")
    made = hashlib.pbkdf2_hmac(HASHES[key.mechanism], password.encode(), salt, iterations)
    return ScramCredential(key, iterations, salt, made)


def iterations_like(on_source: int) -> int:
    """As many as the source has, within what brokers take."""
    return min(max(on_source, LEAST_ITERATIONS), MOST_ITERATIONS)
