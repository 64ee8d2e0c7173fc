"""Refusals in Confluent's words: an HTTP status, and an `error_code` that begins with it.

One table. What is of several topics answers 200 and has the codes in `data`, so they are looked up here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from gateway.api.errors import request_problems
from gateway.api.models import ErrorBody
from gateway.errors import BadRequest, Conflict, NotFound, SourceUnreachable, TargetUnreachable
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.state.mirror_states import WrongState
from gateway.state.store import StoreConflict, StoreError


class UnknownTopic(NotFound):
    """A topic that does not exist, where one was named beside a link or a cluster."""


class Unsupported(BadRequest):
    """A request that Confluent's API has and this one has not; the message says what to do instead."""


class Refusal(NamedTuple):
    """HTTP status, `error_code`."""

    status: int
    code: int


REFUSALS: Final[tuple[tuple[type[Exception], Refusal], ...]] = (
    (UnknownTopic, Refusal(404, 40403)),
    (NotFound, Refusal(404, 404)),
    (Unsupported, Refusal(400, 40035)),
    (BadRequest, Refusal(400, 40002)),
    (Conflict, Refusal(400, 40002)),
    (WrongState, Refusal(400, 400)),
    (RequestValidationError, Refusal(400, 400)),
    (StoreConflict, Refusal(400, 40002)),
    (SourceUnreachable, Refusal(503, 50302)),
    (TargetUnreachable, Refusal(503, 50302)),
    (ClusterUnavailable, Refusal(503, 50302)),
    (StoreError, Refusal(503, 50302)),
)
"""The first row that fits counts. Anything else is a bug, and the application's answer to one."""

KNOWN: Final = tuple(kind for kind, _ in REFUSALS)


def refusal_of(exc: Exception) -> Refusal:
    """Raises KeyError for what is no refusal."""
    for kind, refusal in REFUSALS:
        if isinstance(exc, kind):
            return refusal
    raise KeyError(exc)


def message_of(exc: Exception) -> str:
    """One line."""
    if isinstance(exc, RequestValidationError):
        return request_problems(exc)
    return " ".join(str(exc).split())


@contextmanager
def of_topics() -> Iterator[None]:
    """What does not exist in here is a topic: the link was found before."""
    try:
        yield
    except NotFound as exc:
        raise UnknownTopic(str(exc)) from exc


class ConfluentRoute(APIRoute):
    """A route whose refusals are told by the table."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await inner(request)
            except KNOWN as exc:
                status, code = refusal_of(exc)
                return JSONResponse(ErrorBody(error_code=code, message=message_of(exc)).model_dump(), status)

        return handle
