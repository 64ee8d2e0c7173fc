"""`lockgate health`: whether one gateway process works, for the health check of a container. It needs no token."""

from __future__ import annotations

from typing import Final

import httpx
import typer

from gateway.cli.api import DEFAULT_URL, REFUSED, UNREACHABLE, Url, fail
from gateway.cli.connection import client

_TIMEOUT_S: Final = 2.5


def health(url: Url = DEFAULT_URL) -> None:
    """Ask whether the gateway at --url works: exit code 0, or 1 with what does not, 3 without an answer.

    It is the health check of the image, which so finds an API with TLS or on a socket, too: LOCKGATE_URL,
    LOCKGATE_CA_FILE.
    """
    try:
        with client(url) as connection:
            response = connection.get("/health", timeout=_TIMEOUT_S)
            told = response.json()
    except (httpx.HTTPError, ValueError) as exc:
        fail(f"no answer from {url}: {str(exc) or type(exc).__name__}", UNREACHABLE)
    failing = [f"{name}: {why}" for name, why in told.get("checks", {}).items() if why != "ok"]
    if response.is_error:
        fail("; ".join(failing) or f"it answers {response.status_code}", REFUSED)
    typer.echo("it works")
