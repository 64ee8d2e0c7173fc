"""Reads an HTTP service's answer, within limits that the service cannot exceed.

The services (schema registries, issuers of tokens and of their keys) are named by those who run the gateway or create
links, and may belong to anyone by the time they are asked. httpx inflates an answer before its size can be checked,
layer upon layer: two kilobytes become two gigabytes. Its timeouts are per read, so a service that trickles blocks the
caller for ever. So compressed answers are neither requested nor accepted, bytes are counted as they arrive, and the
whole request has a deadline.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

_PLAIN = ("", "identity")


class AnswerError(OSError):
    """There is no usable answer; the message says why, in one line."""


async def bounded_answer(
    client: httpx.AsyncClient, method: str, url: str, *, most: int, within_s: float, **request: Any
) -> tuple[int, bytes]:
    """Send one request and read its answer.

    Args:
        most: bytes of the answer's body.
        within_s: seconds for all of it, connecting included.
        request: as httpx takes it: `headers`, `params`, `content`, `data`, `auth`.

    Returns:
        The HTTP status and the body.

    Raises:
        AnswerError: no connection, no whole answer in time, too long an answer, or a compressed one.
    """
    headers = {**request.pop("headers", {}), "accept-encoding": "identity"}
    body = bytearray()
    try:
        async with (
            asyncio.timeout(within_s),
            client.stream(method, url, headers=headers, **request) as answer,
        ):
            encoding = answer.headers.get("content-encoding", "").strip().lower()
            if encoding not in _PLAIN:
                raise AnswerError(f"its answer is compressed ({encoding[:40]}), which was not asked for")
            async for piece in answer.aiter_raw():
                body += piece
                if len(body) > most:
                    raise AnswerError(f"an answer of more than {most} bytes")
            return answer.status_code, bytes(body)
    except TimeoutError:
        raise AnswerError(f"no whole answer within {within_s:g} s") from None
    except httpx.HTTPError as error:
        raise AnswerError(str(error) or type(error).__name__) from error
