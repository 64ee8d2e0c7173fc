"""SASL, the client's side, as tokens in and out: PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677), OAUTHBEARER.

The gateway's own OAUTHBEARER token comes from a file, or from its issuer's endpoint. It is read before each login, a
repeated one too: somebody else renews the file, as Kubernetes does for service accounts. An endpoint is asked as
RFC 6749 says of clients with a secret (sections 2.3.1 and 4.4). That is the only I/O here.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import ssl
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote_plus, unquote, urlsplit

import httpx

from gateway.kafka.connection.config import ClusterConfig, OAuthConfig
from gateway.kafka.connection.errors import AuthenticationFailed, ClusterUnavailable
from gateway.kafka.rules.scram import HASHES, LEAST_ITERATIONS
from gateway.transport.http_answer import bounded_answer

MAX_BYTES: Final = 262_144
_TIMEOUT_S: Final = 5.0
_URL: Final = "sasl.oauthbearer.token.endpoint.url"


async def bearer_token(config: ClusterConfig) -> str:
    """A token of now.

    Raises:
        ClusterUnavailable: there is none; one line that says why. Trying again may help.
        ValueError: the client's secret cannot be read, or what is named may not be; names the property.
    """
    config.may_use()
    oauth = config.oauth
    parts = urlsplit(oauth.url)
    try:
        if parts.scheme == "file":
            token = _read(Path(unquote(parts.path)))
        else:
            token = _token_of(await _answer(oauth, config.oauth_secret()))
    except UnicodeDecodeError:
        raise ClusterUnavailable(f"{_URL}: {oauth.url}: not a token") from None
    except OSError as error:
        raise ClusterUnavailable(f"{_URL}: {oauth.url}: {error.strerror or error}") from error
    if not token or len(token) > MAX_BYTES or any(not "!" <= character <= "~" for character in token):
        raise ClusterUnavailable(f"{_URL}: {oauth.url}: not a token")
    return token


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1).decode("ascii").strip()


async def _answer(oauth: OAuthConfig, secret: str) -> bytes:
    """Raises OSError."""
    context = ssl.create_default_context(cafile=oauth.ca or None)
    form = {"grant_type": "client_credentials", **({"scope": oauth.scope} if oauth.scope else {})}
    login = httpx.BasicAuth(quote_plus(oauth.client), quote_plus(secret))
    async with httpx.AsyncClient(verify=context, timeout=_TIMEOUT_S, trust_env=False) as client:
        status, body = await bounded_answer(
            client, "POST", oauth.url, most=MAX_BYTES, within_s=_TIMEOUT_S, data=form, auth=login
        )
    if status != httpx.codes.OK:
        raise OSError(f"HTTP {status}")
    return body


def _token_of(answer: bytes) -> str:
    """Raises OSError for an answer without a bearer token."""
    try:
        found: Any = json.loads(answer)
    except ValueError:
        found = None
    token = found.get("access_token") if isinstance(found, dict) else None
    if not isinstance(token, str) or str(found.get("token_type", "bearer")).lower() != "bearer":
        raise OSError("its answer has no bearer token")
    return token


MAX_ITERATIONS = 100_000
"""The broker says how often, and what that costs. Kafka makes 16,384 at the most; a hundred thousand take 50 ms."""


class Mechanism(Protocol):
    """One authentication. `respond` takes the broker's token and gives the next, None when done."""

    takes_long: bool
    """`respond` is for a thread: it is one call that frees the interpreter."""

    def first(self) -> bytes:
        """The token that opens the exchange."""

    def respond(self, token: bytes) -> bytes | None:
        """The next token. Raises AuthenticationFailed when the broker's is wrong."""


class Plain:
    """PLAIN: user name and password in one token."""

    takes_long = False

    def __init__(self, username: str, password: str) -> None:
        self._token = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        """`NUL user NUL password`, no authorisation identity."""
        return self._token

    def respond(self, token: bytes) -> bytes | None:
        """Done: the broker has nothing to say in PLAIN."""
        return None


class OAuthBearer:
    """OAUTHBEARER (RFC 7628): a token that others have issued. A broker that refuses it says why, and is answered."""

    takes_long = False

    def __init__(self, token: str) -> None:
        self._token = f"n,,\x01auth=Bearer {token}\x01\x01".encode()

    def first(self) -> bytes:
        """The token."""
        return self._token

    def respond(self, token: bytes) -> bytes | None:
        """Done, unless the broker has something to say: that is an error, told as one in its next answer."""
        return b"\x01" if token else None


class Scram:
    """SCRAM with SHA-256 or SHA-512, no channel binding. The broker proves that it knows the password too.

    `is_token`: user name and password are a delegation token's id and HMAC (KIP-48: the extension `tokenauth`).
    """

    takes_long = True  # PBKDF2, whose price is the broker's to say

    def __init__(
        self, mechanism: str, username: str, password: str, nonce: str | None = None, *, is_token: bool = False
    ) -> None:
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        escaped = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={escaped},r={self._nonce}" + (",tokenauth=true" if is_token else "")
        self._expected: bytes | None = None

    def first(self) -> bytes:
        """client-first-message."""
        return f"n,,{self._first_bare}".encode()

    def respond(self, token: bytes) -> bytes | None:
        """client-final-message for the server's first; None once the server's signature is found right."""
        try:
            text = token.decode()
            fields = dict(part.split("=", 1) for part in text.split(","))
            if "e" in fields:
                raise AuthenticationFailed(f"SCRAM: the broker says {fields['e']}")
            if self._expected is None:
                return self._final(text, fields)
            if not hmac.compare_digest(base64.b64decode(fields["v"], validate=True), self._expected):
                raise AuthenticationFailed("SCRAM: the broker does not know the password (wrong signature)")
        except (ValueError, KeyError) as exc:
            raise AuthenticationFailed("SCRAM: a malformed message from the broker") from exc
        return None

    def _final(self, server_first: str, fields: dict[str, str]) -> bytes:
        nonce, iterations = fields["r"], int(fields["i"])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise AuthenticationFailed("SCRAM: the broker's nonce does not extend ours")
        if not LEAST_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise AuthenticationFailed(
                f"SCRAM: {iterations} iterations; {LEAST_ITERATIONS} to {MAX_ITERATIONS} are possible"
            )
        without_proof = f"c=biws,r={nonce}"
        message = f"{self._first_bare},{server_first},{without_proof}".encode()
        salt = base64.b64decode(fields["s"], validate=True)
        client_key, server_key = _keys(self._hash, self._password, salt, iterations)
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), message, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._expected = hmac.digest(server_key, message, self._hash)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


@lru_cache(maxsize=256)
def _keys(hash_name: str, password: bytes, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    """Client key and server key. Cached, because pools and sessions log in many times with the same salt."""
    salted = hashlib.pbkdf2_hmac(hash_name, password, salt, iterations)
    return hmac.digest(salted, b"Client Key", hash_name), hmac.digest(salted, b"Server Key", hash_name)


def mechanism(name: str, username: str, password: str) -> Mechanism:
    """PLAIN or SCRAM, by its name."""
    return Plain(username, password) if name == "PLAIN" else Scram(name, username, password)
