"""The keys that tokens are signed with, as their issuer shows them: a JWKS by https, or in a file."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import httpx

from gateway.transport.http_answer import AnswerError, bounded_answer

MAX_BYTES: Final = 1_048_576
TIMEOUT_S: Final = 5.0


def fetcher(url: str, ca: Path | None) -> Callable[[], Awaitable[str]]:
    """What fetches the JWKS; it raises OSError, or ValueError for what is none.

    No redirect is followed and no proxy of the environment asked: the keys decide who everybody is.

    Args:
        url: https://… or file:///….
        ca: PEM, who signs the server's certificate; None: the system's.

    Raises:
        ValueError: `ca` cannot be used.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        path = Path(unquote(parts.path))
        return lambda: _read(path)
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ValueError(f"oauth.ca: {ca} cannot be used: {error.strerror or error}") from None
    return lambda: _get(url, context)


async def _read(path: Path) -> str:
    with path.open("rb") as file:
        return _text(file.read(MAX_BYTES + 1))


async def _get(url: str, context: ssl.SSLContext) -> str:
    try:
        async with httpx.AsyncClient(verify=context, timeout=TIMEOUT_S, trust_env=False) as client:
            status, body = await bounded_answer(client, "GET", url, most=MAX_BYTES, within_s=TIMEOUT_S)
    except AnswerError as error:
        raise OSError(f"{url}: {error}") from error
    if status != httpx.codes.OK:
        raise OSError(f"{url}: HTTP {status}")
    return _text(body)


def _text(data: bytes) -> str:
    if len(data) > MAX_BYTES:
        raise ValueError(f"a JWKS of more than {MAX_BYTES} bytes")
    return data.decode("utf-8")
