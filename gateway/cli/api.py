"""Talking to a gateway's REST API, and the exit codes of every command.

0: done. 1: the gateway refused, its message is one line on stderr. 2: wrong usage or settings. 3: no gateway there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, NoReturn, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import typer

from gateway.cli.connection import DEFAULT_URL as DEFAULT_URL
from gateway.cli.connection import UNREACHABLE as UNREACHABLE
from gateway.cli.connection import URL_VARIABLE, client, what_is_missing
from gateway.cli.connection import USAGE as USAGE

T = TypeVar("T")

Params = Mapping[str, str | list[str]]
"""Query parameters; a list repeats one."""

REFUSED = 1

Url = Annotated[
    str,
    typer.Option("--url", envvar=URL_VARIABLE, help="Where the gateway's API is: http(s)://HOST:PORT or unix:PATH."),
]


def fail(message: str, code: int) -> NoReturn:
    """End the command: one line on stderr."""
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    raise typer.Exit(code)


class Refused(Exception):
    """The gateway answered with an error; the message is its own."""


class Api:
    """The API at one address. Methods return the decoded body, None for an empty one.

    Raises:
        Refused: an error answer. `ask`, or the caller, turns it into exit code 1.
        typer.Exit: nobody answers there (3), or what answers is no gateway (3).
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def get(self, path: str, params: Params | None = None) -> Any:
        """GET."""
        return self._call("GET", path, params=params)

    def list(self, path: str, params: Params | None = None) -> Any:
        """GET of a list: all of its pages as one answer, which says nothing of pages."""
        answer = page = self.get(path, params)
        while token := next_token(page):
            page = self.get(path, {**(params or {}), "page_token": token})
            answer["data"] += page["data"]
        answer.pop("metadata", None)
        return answer

    def post(self, path: str, body: Any = None) -> Any:
        """POST."""
        return self._call("POST", path, body=body)

    def put(self, path: str, body: Any = None) -> Any:
        """PUT."""
        return self._call("PUT", path, body=body)

    def delete(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """DELETE."""
        return self._call("DELETE", path, params=params)

    def _call(self, method: str, path: str, body: Any = None, params: Params | None = None) -> Any:
        try:
            with client(self._url) as connection:
                response = connection.request(method, path, json=body, params=params)
        except (httpx.TransportError, httpx.InvalidURL, httpx.UnsupportedProtocol) as exc:
            fail(
                f"no answer from {self._url}: {str(exc) or type(exc).__name__}; is `lockgate serve` running?",
                UNREACHABLE,
            )
        if response.status_code == httpx.codes.NO_CONTENT:
            return None
        try:
            answer = response.json()
        except ValueError:
            fail(f"{self._url} is not a lockgate API: HTTP {response.status_code} without JSON", UNREACHABLE)
        if response.is_error:
            missing = what_is_missing(self._url) if response.status_code == httpx.codes.UNAUTHORIZED else ""
            raise Refused((str(answer.get("message", answer)) if isinstance(answer, dict) else str(answer)) + missing)
        return answer


def ask(url: str, question: Callable[[Api], T]) -> T:
    """The answer to one question, or the end of the command."""
    try:
        return question(Api(url))
    except Refused as exc:
        fail(str(exc), REFUSED)


def next_token(page: Any) -> str:
    """Of the page after it, '' of the last one. It alone is taken of the URL: no answer says who is asked next."""
    url = (page.get("metadata") or {}).get("next") or ""
    return "".join(parse_qs(urlsplit(url).query).get("page_token", [])[:1])


def segment(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")
