"""How commands reach a gateway's REST API, and prove who asks.

Every command that has `--url` has these options too, without naming them (`commands.py`). The token is read from a
file, never from the command line, where every user of the machine could see it; and it is sent only where nobody can
listen: by TLS, on loopback, or over a Unix socket.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import ssl
from collections.abc import Generator, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn
from urllib.parse import urlsplit

import httpx
import typer

from gateway.api.access.token_file import TokenError, default_path, read_token

DEFAULT_URL: Final = "http://127.0.0.1:8642"
URL_VARIABLE: Final = "LOCKGATE_URL"
USAGE: Final = 2
UNREACHABLE: Final = 3
UNIX: Final = "unix:"
_ADDRESS: Final = re.compile(r"[\w.-]+:\d+(/.*)?")
TIMEOUT: Final = httpx.Timeout(120.0, connect=5.0)  # a create waits for two clusters

OPTIONS: Final[Mapping[str, Any]] = {
    "token_file": Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="LOCKGATE_TOKEN_FILE",
            help="File with the bearer token; on this machine the gateway's own is found by itself.",
        ),
    ],
    "ca_file": Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="LOCKGATE_CA_FILE", help="Who signs the API's certificate (PEM)."),
    ],
    "certificate_file": Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="LOCKGATE_CERTIFICATE_FILE", help="Client certificate (PEM)."),
    ],
    "key_file": Annotated[
        Path | None, typer.Option(metavar="FILE", envvar="LOCKGATE_KEY_FILE", help="Its key, if in another file.")
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """What the options say."""

    token_file: Path | None = None
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None


_CONNECTION: ContextVar[Connection] = ContextVar("_CONNECTION", default=Connection())  # noqa: B039 - it is frozen


@contextlib.contextmanager
def connected(**options: Any) -> Iterator[None]:
    """While a command asks with these options, named as in `OPTIONS`."""
    before = _CONNECTION.set(Connection(**options))
    try:
        yield
    finally:
        _CONNECTION.reset(before)


def client(url: str) -> httpx.Client:
    """A client of the API at `url`, an http(s) URL or `unix:PATH`. Ends the command with 2 when it cannot be used."""
    _require_url(url)
    connection, headers = _CONNECTION.get(), {}
    token = _token(url, connection)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if url.startswith(UNIX):
        if not Path(url.removeprefix(UNIX)).exists():
            _fail(f"no answer from {url}: there is no such socket; is `lockgate serve` running?", UNREACHABLE)
        transport = httpx.HTTPTransport(uds=url.removeprefix(UNIX))
        return httpx.Client(base_url="http://localhost", transport=transport, headers=headers, timeout=TIMEOUT)
    return httpx.Client(
        base_url=url.rstrip("/"),
        headers=headers,
        timeout=TIMEOUT,
        verify=_tls(connection) if url.startswith("https:") else True,
        trust_env=not _is_here(url),  # no proxy stands between this machine and itself
    )


def _require_url(url: str) -> None:
    """What is no URL is told with the one that was meant, if it is near."""
    if url.startswith(UNIX):
        return
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return
    except ValueError as exc:
        _fail(f"--url {url}: {exc}")
    meant = f"; write http://{url}" if _ADDRESS.fullmatch(url) else ""
    _fail(f"--url {url}: http(s)://HOST:PORT or unix:PATH is expected{meant}")


def token_sent(url: str) -> str:
    """The token that commands send there; '' for none. Ends the command as `client` does."""
    return _token(url, _CONNECTION.get())


class BearerFile(httpx.Auth):
    """Sends the token of a file, which is read anew for each request; nothing while there is none."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """httpx's."""
        with contextlib.suppress(FileNotFoundError):
            request.headers["Authorization"] = f"Bearer {read_token(self._path, group=True)}"
        yield request


def what_is_missing(url: str) -> str:
    """For a command that was asked for a token: why it had none; '' when it had one."""
    connection = _CONNECTION.get()
    if connection.token_file is not None or url.startswith(UNIX):
        return ""
    path = default_path(os.environ)
    if not _is_here(url):
        return "; name its file with --token-file or LOCKGATE_TOKEN_FILE"
    return "" if path.exists() else f"; there is none in {path}: name its file with --token-file or LOCKGATE_TOKEN_FILE"


def _token(url: str, connection: Connection) -> str:
    path = connection.token_file
    try:
        if path is not None:
            if not _is_here(url) and not url.startswith("https:"):
                _fail(f"{url}: the token of {path} is not sent without TLS to another machine; use https")
            return read_token(path, group=True)
        return read_token(default_path(os.environ)) if _is_here(url) and not url.startswith(UNIX) else ""
    except FileNotFoundError:
        if path is not None:
            _fail(f"--token-file: {path} does not exist")
        return ""
    except TokenError as exc:
        _fail(str(exc))


def _tls(connection: Connection) -> ssl.SSLContext:
    certificate = connection.certificate_file
    try:
        context = ssl.create_default_context(cafile=connection.ca_file)
        if certificate is not None:
            context.load_cert_chain(certificate, connection.key_file)
    except (OSError, ssl.SSLError) as exc:
        _fail(f"--ca-file, --certificate-file, --key-file: {exc.strerror or exc}")
    return context


def _is_here(url: str) -> bool:
    """On this machine, whatever a resolver says."""
    if url.startswith(UNIX):
        return True
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _fail(message: str, code: int = USAGE) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code)
