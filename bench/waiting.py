"""Waiting for a condition with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from bench.errors import BenchError

T = TypeVar("T")


def wait_until(condition: Callable[[], T], deadline_s: float, what: str, *, poll_s: float = 0.02) -> T:
    """Ask `condition` every `poll_s` seconds until it returns something true, and return that.

    Raises:
        BenchError: it did not within `deadline_s` seconds; the message names `what`.
    """
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise BenchError(f"waited {deadline_s:.0f} s for {what}; last seen: {value!r}")
        time.sleep(poll_s)
