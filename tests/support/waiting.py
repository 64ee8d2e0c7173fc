"""Waiting for a condition with a deadline: the only place where tests may sleep."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, overload

T = TypeVar("T")

_POLL_S: Final = 0.02


def wait_until(condition: Callable[[], T], deadline: float = 30.0, *, what: str = "the condition") -> T:
    """Call `condition` until it returns something true, and return that.

    Args:
        condition: must not raise; asked about 50 times a second.
        deadline: seconds from now.
        what: names what is waited for in the error.

    Raises:
        AssertionError: the deadline passed; the message has the last value.
    """
    end = time.monotonic() + deadline
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise AssertionError(f"{what} did not come true within {deadline} s; last value: {value!r}")
        time.sleep(_POLL_S)


@overload
async def wait_until_async(condition: Callable[[], Awaitable[T]], deadline: float = ..., *, what: str = ...) -> T: ...


@overload
async def wait_until_async(condition: Callable[[], T], deadline: float = ..., *, what: str = ...) -> T: ...


async def wait_until_async(
    condition: Callable[[], T | Awaitable[T]], deadline: float = 30.0, *, what: str = "the condition"
) -> T:
    """`wait_until` for use on an event loop, by the loop's clock; `condition` may be a coroutine function."""
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline
    while True:
        answer = condition()
        value = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        if loop.time() >= end:
            raise AssertionError(f"{what} did not come true within {deadline} s; last value: {value!r}")
        await asyncio.sleep(_POLL_S)
