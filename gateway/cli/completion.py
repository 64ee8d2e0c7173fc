"""What a shell is told when somebody presses Tab behind a name: the names that the gateway knows.

Silent and quick: a gateway that does not answer within a second, or refuses, has none. `lockgate --install-completion`
sets the shell up.
"""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final
from urllib.parse import quote

import httpx
import typer

from gateway.cli.api import next_token
from gateway.cli.connection import DEFAULT_URL, URL_VARIABLE, client

LINK_VARIABLE: Final = "LOCKGATE_LINK"
_WAIT_S: Final = 1.0


def links(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of links."""
    return _names(ctx, "/v3/links", "link_name", incomplete)


def topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Mirror topics of the link that the line has named by then, else of all links."""
    return _below_link(ctx, "mirrors", "mirror_topic_name", incomplete)


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Mirror groups likewise."""
    return _below_link(ctx, "groups", "group", incomplete)


def migrations(ctx: typer.Context, incomplete: str) -> list[str]:
    """Migrations of the fleet."""
    return _names(ctx, "/v3/migrations", "migration", incomplete)


def gateways(ctx: typer.Context, incomplete: str) -> list[str]:
    """Gateways of the fleet."""
    return _names(ctx, "/v3/gateways", "name", incomplete)


def words(*known: str) -> Callable[[str], list[str]]:
    """A completion of words that do not change, in any case."""
    return lambda incomplete: [word for word in known if word.lower().startswith(incomplete.lower())]


def _below_link(ctx: typer.Context, kind: str, field: str, incomplete: str) -> list[str]:
    link = ctx.params.get("link") or os.environ.get(LINK_VARIABLE)
    of = [link] if link else links(ctx, "")
    found = (_names(ctx, f"/v3/links/{quote(one, safe='')}/{kind}", field, incomplete) for one in of)
    return sorted({name for names in found for name in names})


def _names(ctx: typer.Context, path: str, field: str, incomplete: str) -> list[str]:
    url = ctx.params.get("url") or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    with (
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError, typer.Exit),
        client(url) as connection,
    ):
        return sorted(name for name in _listed(connection, path, field) if name.startswith(incomplete))
    return []


def _listed(connection: httpx.Client, path: str, field: str) -> Iterator[str]:
    """Page by page, as long as there is time."""
    began, token = time.monotonic(), ""
    while True:
        page: Any = connection.get(path, params={"page_token": token} if token else None, timeout=_WAIT_S).json()
        yield from (str(one[field]) for one in page["data"])
        token = next_token(page)
        if not token or time.monotonic() - began > _WAIT_S:
            return


Link = Annotated[
    str,
    typer.Option(
        "--link", envvar=LINK_VARIABLE, help="Name of the link; not needed where there is one.", autocompletion=links
    ),
]
"""Where one link is meant; see `commands.py`."""
AnyLink = Annotated[
    str,
    typer.Option("--link", envvar=LINK_VARIABLE, help="Name of the link; without it, all links.", autocompletion=links),
]
"""Where every link is meant when none is named."""
