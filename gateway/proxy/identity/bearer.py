"""Whose an OAUTHBEARER token is: a JWT (RFC 7519), checked against the keys of who issues them (RFC 7517).

PyJWT checks signature and claims. Signatures are asymmetric only: with a shared secret whoever checks could issue, too,
and a public key must never be taken for one (RFC 8725). Issuer, audience and an end are demanded. Keys are fetched when
a token names one that is not known, at most every `AGAIN_S`, and when they are older than `OLD_S`: then keys that are
gone count no more. While they cannot be fetched those that are known stay in force for `KEPT_S`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from gateway.kafka.access.delegation_tokens import MAX_NAME
from gateway.proxy.identity.identity import Bearer, BearerUnchecked, InvalidBearer

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
AGAIN_S: Final = 10.0
OLD_S: Final = 600.0
KEPT_S: Final = 86_400.0
MAX_KEYS: Final = 100
LEAST_RSA_BITS: Final = 2048
_SAID: Final = 200
_log = structlog.get_logger("lockgate.identity")


class Keys:
    """The keys of an issuer. `fetch`: gets the JWKS; raises OSError or ValueError. `clock`: monotonic seconds."""

    def __init__(self, fetch: Callable[[], Awaitable[str]], clock: Callable[[], float]) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._fetched_at = self._tried_at = -math.inf
        self._why = "not fetched yet"
        self._fetching: asyncio.Task[None] | None = None

    async def of(self, key_id: str) -> jwt.PyJWK:
        """The key of a token's header. Raises InvalidBearer or BearerUnchecked."""
        now = self._clock()
        if key_id not in self._keys or now >= self._fetched_at + OLD_S:
            if now >= self._tried_at + AGAIN_S and self._fetching is None:
                self._tried_at = now
                self._fetching = asyncio.get_running_loop().create_task(self._renew(), name="fetch JWKS")
            if self._fetching is not None:
                await asyncio.shield(self._fetching)
        if self._clock() >= self._fetched_at + KEPT_S:
            raise BearerUnchecked(f"there are no keys to check tokens with: {self._why}")
        found = self._keys.get(key_id)
        if found is None:
            raise InvalidBearer("the token is signed with a key that its issuer does not name")
        return found

    async def _renew(self) -> None:
        try:
            found = jwt.PyJWKSet.from_json(await self._fetch())
        # The answer is somebody else's: `null`, a list, or JSON as deep as it likes end in whatever PyJWT meets first.
        except Exception as error:  # noqa: BLE001 - the keys that are known stay in force, and who waits is answered
            self._why = (str(error) or type(error).__name__)[:_SAID]
            _log.error("the keys of tokens cannot be fetched", error=self._why)
        else:
            signing = [key for key in found.keys if key.key_id and key.public_key_use in (None, "sig")]
            self._keys = {str(key.key_id): key for key in signing[:MAX_KEYS] if _is_taken(key)}
            self._fetched_at = self._clock()
        finally:
            self._fetching = None


def _is_taken(key: jwt.PyJWK) -> bool:
    """Of a kind that is taken, and no RSA key that can be broken (NIST SP 800-131A: 2,048 bits at least)."""
    if key.algorithm_name not in ALGORITHMS:
        return False
    if isinstance(key.key, RSAPublicKey) and key.key.key_size < LEAST_RSA_BITS:
        _log.warning(
            "an RSA key of the tokens' issuer is too short", key=str(key.key_id)[:_SAID], bits=key.key.key_size
        )
        return False
    return True


def _refused_words(error: jwt.PyJWTError) -> str:
    """What is wrong with a token, in words of ours: PyJWT's hold what the token's sender wrote."""
    return next((words for kind, words in _REFUSED if isinstance(error, kind)), "it is not a token")


_REFUSED: Final[tuple[tuple[type[jwt.PyJWTError], str], ...]] = (
    (jwt.ExpiredSignatureError, "its time is over"),
    (jwt.ImmatureSignatureError, "its time has not begun"),
    (jwt.InvalidIssuedAtError, "it says that it is of a time to come"),
    (jwt.InvalidAudienceError, "it is for another audience"),
    (jwt.InvalidIssuerError, "it is of another issuer"),
    (jwt.MissingRequiredClaimError, "it lacks a claim: exp, iss, aud and the principal's are needed"),
    (jwt.InvalidSignatureError, "its signature is wrong"),
    (jwt.InvalidAlgorithmError, "its signature is of another kind than its key"),
    (jwt.InvalidKeyError, "its key cannot be used"),
    (jwt.DecodeError, "it is not a token"),
)


class BearerTokens:
    """Checks tokens. `wall_s`: seconds since the epoch; for how long a token is still good is the host's to say."""

    def __init__(
        self,
        keys: Keys,
        *,
        issuer: str,
        audience: str,
        claim: str,
        skew_s: float,
        wall_s: Callable[[], float],
    ) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._claim = claim
        self._skew_s = skew_s
        self._wall_s = wall_s

    async def check(self, token: str) -> Bearer:
        """Whose it is. Raises InvalidBearer or BearerUnchecked."""
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in ALGORITHMS:
                raise InvalidBearer("the token has no signature of a kind that is taken here")
            key = await self._keys.of(str(header.get("kid", "")))
            claims = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._skew_s,
                options={"require": ["exp", "iss", "aud", self._claim]},
            )
        except jwt.PyJWTError as error:
            raise InvalidBearer(f"the token is not valid: {_refused_words(error)}") from None
        return self._bearer(claims)

    def _bearer(self, claims: Mapping[str, Any]) -> Bearer:
        name = claims[self._claim]
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            raise InvalidBearer(f"the token's {self._claim} is no name of a principal")
        left_s = float(claims["exp"]) + self._skew_s - self._wall_s()
        if left_s <= 0:
            raise InvalidBearer("the token is not valid: its time is over")
        return Bearer(name, left_s)
