"""Talking to a gateway's REST API, and the exit codes of every command.

0: done. 1: the gateway refused, its message is one line on stderr. 2: wrong usage or settings. 3: no gateway there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, NoReturn, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import typer

from gateway.cli import near_names
from gateway.cli.connection import DEFAULT_URL as DEFAULT_URL
from gateway.cli.connection import UNIX, URL_VARIABLE, client, what_is_missing
from gateway.cli.connection import UNREACHABLE as UNREACHABLE
from gateway.cli.connection import USAGE as USAGE
from gateway.cli.progress import patience
from gateway.close_names import did_you_mean

T = TypeVar("T")

Params = Mapping[str, str | list[str]]
"""Query parameters; a list repeats one."""

REFUSED = 1
_NO_SUCH_PATH: Final = "Not Found"  # the framework's; every refusal of ours names what it is about
_FORCE: Final = re.compile(r"\buse force\b")  # as REST calls it
_PAGES: Final = 5

Url = Annotated[
    str,
    typer.Option("--url", envvar=URL_VARIABLE, help="Where the gateway's API is: http(s)://HOST:PORT or unix:PATH."),
]


def fail(message: str, code: int) -> NoReturn:
    """End the command: one line on stderr."""
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    raise typer.Exit(code)


def fail_all(messages: Sequence[str], code: int) -> NoReturn:
    """End the command: a line for each on stderr."""
    for message in messages[:-1]:
        typer.echo(f"error: {' '.join(message.split())}", err=True)
    fail(messages[-1], code)


def one_of(option: str, text: str, known: type[StrEnum]) -> str:
    """The word that was meant, in any case and with '-' for '_'; '' for none. Ends the command with 2 for another."""
    word = text.strip().upper().replace("-", "_")
    if word and word not in known.__members__:
        fail(f"{option} {text}: there is no such one{did_you_mean(word, known)}; there are {', '.join(known)}", USAGE)
    return word


class Refused(Exception):
    """The gateway answered with an error; the message is its own."""


class Api:
    """The API at one address. Methods return the decoded body, None for an empty one.

    Raises:
        Refused: an error answer. `ask`, or the caller, turns it into exit code 1.
        typer.Exit: nobody answers there (3), or what answers is no gateway (3).
    """

    def __init__(self, url: str) -> None:
        self._url = url if url.endswith("://") else url.rstrip("/")

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
            with client(self._url) as connection, patience(f"no answer yet from {self._url}"):
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
            raise Refused(self._why(response.status_code, answer, path, body))
        return answer

    def _why(self, status: int, answer: Any, path: str, body: Any) -> str:
        """What a refusal says, as the command line says it. Ends the command with 3 when no gateway has refused."""
        if not isinstance(answer, dict) or "message" not in answer:
            fail(f"{self._url} is not a lockgate API: HTTP {status}, {answer}", UNREACHABLE)
        message = str(answer["message"])
        if message == _NO_SUCH_PATH:
            bare, unknown = urlsplit(self._url)._replace(path="").geturl(), path.partition("?")[0]
            if bare != self._url and not self._url.startswith(UNIX):
                fail(f"no lockgate API at {self._url}: it does not know {unknown}; write {bare}", UNREACHABLE)
            return f"the gateway at {self._url} does not know {unknown}: it is of another version"
        if status == httpx.codes.UNAUTHORIZED:
            message += what_is_missing(self._url)
        if status == httpx.codes.NOT_FOUND:
            message += near_names.hint(self._names, path, body, message)
        return _FORCE.sub("use --force", message)

    def _names(self, path: str, field: str) -> Sequence[str]:
        """Of the first pages of a list; none when it cannot be had."""
        found = []
        try:
            with client(self._url) as connection:
                token = ""
                for _ in range(_PAGES):
                    page = connection.get(path, params={"page_token": token} if token else None).json()
                    found += [str(one[field]) for one in page["data"]]
                    if not (token := next_token(page)):
                        break
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return found
        return found


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
