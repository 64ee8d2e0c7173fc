"""Every failure as {"error_code", "message"}: operations' own, the framework's, and bugs."""

from __future__ import annotations

from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from gateway.api.models import ErrorBody
from gateway.errors import ControlError
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.state.mirror_states import WrongState
from gateway.state.store import StoreConflict, StoreError
from gateway.validation import problems_in

_PLACES = (("body",), ("query",), ("path",), ("header",))
_BODY = ("body",)
_log = structlog.get_logger("lockgate.rest")

RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorBody, "description": "Bad input"},
    401: {"model": ErrorBody, "description": "Not authenticated: a bearer token is required"},
    403: {"model": ErrorBody, "description": "The caller's role may not do this"},
    404: {"model": ErrorBody, "description": "Unknown name"},
    409: {"model": ErrorBody, "description": "Wrong state, or it exists already"},
    413: {"model": ErrorBody, "description": "The body is too long"},
    415: {"model": ErrorBody, "description": "The body is not application/json"},
    421: {"model": ErrorBody, "description": "The Host header names another host: see api.allowed_hosts"},
    502: {"model": ErrorBody, "description": "The source cluster is not reachable"},
    503: {
        "model": ErrorBody,
        "description": "The target cluster is not reachable, the state not written, or it is busy",
    },
}


def install(app: FastAPI) -> None:
    """Register the handlers."""

    @app.exception_handler(ControlError)
    async def control(_: Request, exc: ControlError) -> JSONResponse:
        return _answer(exc.status, str(exc))

    @app.exception_handler(WrongState)
    @app.exception_handler(StoreConflict)
    async def conflict(_: Request, exc: Exception) -> JSONResponse:
        return _answer(409, str(exc))

    @app.exception_handler(StoreError)
    @app.exception_handler(ClusterUnavailable)
    async def unavailable(_: Request, exc: Exception) -> JSONResponse:
        return _answer(503, str(exc))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, exc: RequestValidationError) -> JSONResponse:
        return _answer(400, request_problems(exc))

    @app.exception_handler(HTTPException)
    async def framework(_: Request, exc: HTTPException) -> JSONResponse:
        return _answer(exc.status_code, str(exc.detail))

    @app.exception_handler(Exception)
    async def bug(request: Request, exc: Exception) -> JSONResponse:
        _log.error("request failed", path=request.url.path, error=repr(exc), exc_info=exc)
        return _answer(500, f"internal error: {type(exc).__name__}; see the gateway's log")


def request_problems(error: RequestValidationError) -> str:
    """All that is wrong with a request, in one line. What a body holds may be a secret: no value of it is repeated."""
    errors = [
        {
            **one,
            "loc": one["loc"][1:] if one["loc"][:1] in _PLACES else one["loc"],
            "input": None if one["loc"][:1] == _BODY else one.get("input"),
        }
        for one in error.errors()
    ]
    return "; ".join(words for _, words in problems_in(errors))


def _answer(status: int, message: str) -> JSONResponse:
    body = ErrorBody(error_code=status, message=" ".join(message.split()))
    return JSONResponse(body.model_dump(), status_code=status)
