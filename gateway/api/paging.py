"""Lists in pages: `page_size` and `page_token` of a request, and `metadata.next` of its answer.

A token says after which name to go on, and nothing is remembered between two pages. So what is created or deleted
meanwhile moves nothing: what is there all the time is listed once, by any gateway that leads.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar
from urllib.parse import quote, urlencode

from fastapi import Depends, Query, Request
from pydantic import BaseModel

from gateway.errors import BadRequest

T = TypeVar("T")
Key = tuple[str, ...]
"""What a list is sorted by, and each of it has for itself: (link, mirror topic)."""

LARGEST: Final = 1000
"""Of a page, and how large one is that nobody says anything of: most lists come whole."""
HEAVIEST: Final = 2_000
"""Partitions in a page, some 0.6 MB and 30 ms, for which the clients of the gateway that answers wait: a page of large
topics ends before it has `page_size` of them."""


class ListMetadata(BaseModel):
    """Of a list. `next`: the URL of the next page, null of the last one."""

    self: str
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Paging:
    """What a request says of pages. `after`: what the page before has ended with, () of the first one."""

    request: Request
    size: int
    after: Key

    def cut(
        self, found: Iterable[T], key: Callable[[T], Key], weight: Callable[[T], int] = lambda _: 1
    ) -> tuple[list[T], ListMetadata]:
        """The page, by name, and what its answer says of itself. `weight`: partitions, of what has some."""
        rest = sorted((one for one in found if key(one) > self.after), key=key)
        rows: list[T] = []
        total = 0
        for one in rest[: self.size]:
            total += weight(one)
            if rows and total > HEAVIEST:
                break
            rows.append(one)
        is_last = len(rows) == len(rest)
        return rows, ListMetadata(self=self._address, next=None if is_last else self._next(key(rows[-1])))

    @property
    def _address(self) -> str:
        """Without its query, as the client addresses this gateway."""
        return str(self.request.base_url) + quote(self.request.url.path.lstrip("/"), safe="/-._~")

    def _next(self, key: Key) -> str:
        said = [(name, value) for name, value in self.request.query_params.multi_items() if name != "page_token"]
        return f"{self._address}?{urlencode([*said, ('page_token', _token(self.request, key))])}"


async def _paging(
    request: Request,
    page_size: Annotated[
        int, Query(ge=1, le=LARGEST, description="How many at most; a page of large topics has fewer.")
    ] = LARGEST,
    page_token: Annotated[str, Query(description="Of the `metadata.next` of the page before.")] = "",
) -> Paging:
    return Paging(request, page_size, _read(request, page_token) if page_token else ())


Paged = Annotated[Paging, Depends(_paging)]
"""An argument of a route that lists."""


def _token(request: Request, key: Key) -> str:
    """With the list that it is of: another one's would be gone on with at a place that means nothing there."""
    return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in (request.url.path, *key))


def _read(request: Request, token: str) -> Key:
    """Raises BadRequest."""
    try:
        padded = [part + "=" * (-len(part) % 4) for part in token.split(".")]
        path, *key = [base64.b64decode(part, altchars=b"-_", validate=True).decode() for part in padded]
    except ValueError:
        path, key = "", []
    if path != request.url.path or not key:
        raise BadRequest(
            f"page_token: '{token[:64]}' is none of this list; take that of metadata.next, or none for the first page"
        )
    return tuple(key)
