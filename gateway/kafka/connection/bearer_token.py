"""The token with which this gateway logs in by OAUTHBEARER: from a file, or from the endpoint of who issues them.

Asked for at each login, so at each one that is repeated, too. A file is what others renew, as Kubernetes does for
service accounts. An endpoint is asked as RFC 6749 says of clients with a secret (sections 2.3.1 and 4.4).
"""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus, unquote, urlsplit

import httpx

from gateway.kafka.connection.config import ClusterConfig, OAuthConfig
from gateway.kafka.connection.errors import ClusterUnavailable
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
