"""An answer of an HTTP service that is asked by this gateway, within bounds that the service cannot stretch.

The services (schema registries, issuers of tokens and of their keys) are named by whoever runs the gateway or makes
links, and may be anybody's by the time they are asked. httpx inflates what it is given before anybody sees its size,
layer upon layer: two kilobytes become two gigabytes. And its time limits are for one read each, so a service that
trickles holds who waits for it for ever. So nothing compressed is asked for or taken, bytes are counted as they come,
and the whole has a deadline.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

_PLAIN = ("", "identity")


class AnswerError(OSError):
    """There is no answer that can be used; one line that says why."""


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
