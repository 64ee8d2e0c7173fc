"""How commands reach a gateway's REST API, and prove who asks.

Every command that has `--url` has these options too, without naming them: `ApiTyper` adds them, and to those that show
something, `--watch` (`watch.py`). The token is read from
a file, never from the command line, where every user of the machine could see it; and it is sent only where nobody can
listen: by TLS, on loopback, or over a Unix socket.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import ipaddress
import os
import ssl
from collections.abc import Callable, Generator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, get_type_hints
from urllib.parse import urlsplit

import httpx
import typer

from gateway.api.access.token_file import TokenError, default_path, read_token
from gateway.cli import output, watch

DEFAULT_URL: Final = "http://127.0.0.1:8642"
URL_VARIABLE: Final = "LOCKGATE_URL"
USAGE: Final = 2
UNREACHABLE: Final = 3
UNIX: Final = "unix:"
TIMEOUT: Final = httpx.Timeout(120.0, connect=5.0)  # a create waits for two clusters

_OPTIONS: Final[dict[str, Any]] = {
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


class ApiTyper(typer.Typer):
    """Commands that may have a parameter `url`; those get the options of a connection."""

    def command(self, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
        """As Typer's."""
        register = super().command(*args, **kwargs)

        def add(function: Any) -> Any:
            name = kwargs.get("name") or (args[0] if args else function.__name__)
            told = function
            if "url" in inspect.signature(function).parameters:
                told = _viewed(function) if name in output.LISTS else function
                told = _connected(_watched(told) if name in watch.WATCHED else told)
            register(told)
            return function

        return add


def _viewed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command with `-o wide|name`, `--columns` and `--sort` more."""

    @functools.wraps(function)
    def command(**given: Any) -> None:
        asked = {name: given.pop(name) for name in output.VIEW_OPTIONS}
        with output.viewed(**asked) as form:
            function(**given, output=form)

    return _with_options(command, function, output.VIEW_OPTIONS, output.VIEW_DEFAULTS)


def _watched(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command with `--watch` more."""

    @functools.wraps(function)
    def command(**given: Any) -> None:
        asked = {name: given.pop(name) for name in watch.OPTIONS}
        watch.shown(lambda: function(**given), str(given.get("output", "")), **asked)

    return _with_options(command, function, watch.OPTIONS, watch.DEFAULTS)


def _connected(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the options more."""

    @functools.wraps(function)
    def command(**given: Any) -> Any:
        made = Connection(**{name: given.pop(name) for name in _OPTIONS})
        before = _CONNECTION.set(made)
        try:
            return function(**given)
        finally:
            _CONNECTION.reset(before)

    return _with_options(command, function, _OPTIONS, {})


def _with_options(
    command: Any, function: Callable[..., Any], options: Mapping[str, Any], defaults: Mapping[str, Any]
) -> Callable[..., Any]:
    """`command`, which takes what `function` takes and these options, shows both to Typer. An option that `function`
    has, too, is this one."""
    hints = {**get_type_hints(function, include_extras=True), **options}
    signature = inspect.signature(function)
    own = [
        one.replace(annotation=hints[name], default=defaults.get(name, one.default))
        for name, one in signature.parameters.items()
    ]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=kind)
        for name, kind in options.items()
        if name not in signature.parameters
    ]
    command.__signature__ = signature.replace(parameters=[*own, *more])
    command.__annotations__ = hints
    shown: Callable[..., Any] = command
    return shown


def client(url: str) -> httpx.Client:
    """A client of the API at `url`, an http(s) URL or `unix:PATH`. Ends the command with 2 when it cannot be used."""
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
