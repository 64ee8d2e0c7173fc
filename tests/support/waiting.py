"""Waiting for a condition with a deadline: the only place where tests may sleep."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, overload

T = TypeVar("T")

_OFTEN_S: Final = 0.02
_SELDOM_S: Final = 0.1
_SHARE: Final = 0.05


def pause_s(waited_s: float) -> float:
    """Until the next look: the longer it takes, the less often, since each look costs the machine of whoever is asked.

    50 times a second at first, and 10 times after two seconds.
    """
    return min(max(_OFTEN_S, waited_s * _SHARE), _SELDOM_S)


def wait_until(condition: Callable[[], T], deadline: float = 30.0, *, what: str = "the condition") -> T:
    """Call `condition` until it returns something true, and return that.

    Args:
        condition: must not raise; asked as often as `pause_s` says.
        deadline: seconds from now.
        what: names what is waited for in the error.

    Raises:
        AssertionError: the deadline passed; the message has the last value.
    """
    began = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited = time.monotonic() - began
        if waited >= deadline:
            raise AssertionError(f"{what} did not come true within {deadline} s; last value: {value!r}")
        time.sleep(pause_s(waited))


@overload
async def wait_until_async(condition: Callable[[], Awaitable[T]], deadline: float = ..., *, what: str = ...) -> T: ...


@overload
async def wait_until_async(condition: Callable[[], T], deadline: float = ..., *, what: str = ...) -> T: ...


async def wait_until_async(
    condition: Callable[[], T | Awaitable[T]], deadline: float = 30.0, *, what: str = "the condition"
) -> T:
    """`wait_until` for use on an event loop, by the loop's clock; `condition` may be a coroutine function."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        answer = condition()
        value = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        waited = loop.time() - began
        if waited >= deadline:
            raise AssertionError(f"{what} did not come true within {deadline} s; last value: {value!r}")
        await asyncio.sleep(pause_s(waited))
