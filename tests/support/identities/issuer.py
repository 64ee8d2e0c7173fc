"""Who issues tokens of OAUTHBEARER: a key, its JWKS, and JWTs signed with it."""

from __future__ import annotations

import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm

ISSUER, AUDIENCE = "https://issuer.example.org", "kafka"


class Issuer:
    """One RSA key. `kid`: its name."""

    def __init__(self, kid: str = "one", bits: int = 2048) -> None:
        self.kid = kid
        self.key: RSAPrivateKey = generate_private_key(65537, bits)

    def jwks(self, **more: Any) -> str:
        """The public key as others fetch it."""
        public: dict[str, Any] = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        return json.dumps({"keys": [{**public, "kid": self.kid, "use": "sig", "alg": "RS256", **more}]})

    def public_pem(self) -> bytes:
        """What a forger would take for a shared secret."""
        return self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def token(self, name: str, lifetime_s: float = 600.0, **claims: Any) -> str:
        """A token of `name`; a claim of None is left out."""
        given = {"sub": name, "iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time() + lifetime_s), **claims}
        left = {claim: value for claim, value in given.items() if value is not None}
        return jwt.encode(left, self.key, algorithm="RS256", headers={"kid": self.kid})
