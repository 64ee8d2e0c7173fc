"""What strangers can cause to be logged has a rate: nobody fills the log by knocking.

A line is told apart by its logger and its event, not by what is in it, which may be a stranger's: of each event `BURST`
lines go at once, and one in `EVERY_S` after that. What was left out is counted, and told with the next line that goes.
Loggers of operations are not held back: what they say is caused by an operator, and each line counts. Only a trouble
that is said again in the same words, by a round that fails as the one before, has one line a minute.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

AGAIN_S: Final = 60.0
BURST: Final = 20
EVERY_S: Final = 10.0
_KEYS: Final = 256
STRANGERS: Final = (
    "lockgate.proxy",
    "lockgate.identity",
    "lockgate.rest",
    "lockgate.console",
    "uvicorn.error",
    "asyncio",
)
"""Loggers, with those below them, whose lines are caused by whoever connects."""


class LogRates:
    """Of events. `clock`: monotonic seconds. At most `_KEYS` are remembered, the latest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], _Rate] = OrderedDict()

    def take(self, logger: str, event: str) -> int | None:
        """How many lines were left out since the last one that went, when this one goes; None when it is left out."""
        key, now = (logger, event), self._clock()
        rate = self._kept.pop(key, None) or _Rate(now)
        self._kept[key] = rate
        if len(self._kept) > _KEYS:
            self._kept.popitem(last=False)
        return rate.take(now)


class _Rate:
    """A bucket that holds `BURST` lines, and gains one every `EVERY_S`."""

    __slots__ = ("_at", "_left", "_left_out")

    def __init__(self, now: float) -> None:
        self._left, self._at, self._left_out = float(BURST), now, 0

    def take(self, now: float) -> int | None:
        self._left = min(float(BURST), self._left + (now - self._at) / EVERY_S)
        self._at = now
        if self._left < 1:
            self._left_out += 1
            return None
        self._left -= 1
        left_out, self._left_out = self._left_out, 0
        return left_out


class RatedLines(logging.Filter):
    """For a handler: leaves lines of `STRANGERS` out that are beyond their rate, and says how many there were."""

    def __init__(self, rates: LogRates | None = None) -> None:
        super().__init__()
        self._rates = rates or LogRates()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it goes."""
        if not _is_strangers(record):
            return True
        said: Any = record.msg  # of structlog a dict, of others the text without its arguments
        event = str(said.get("event", "")) if isinstance(said, dict) else str(said)
        left_out = self._rates.take(record.name, event)
        if left_out is None:
            return False
        if left_out and isinstance(said, dict):
            record.msg = {**said, "left_out": left_out}
        elif left_out:
            record.msg = f"{event} ({left_out} more of these were left out)"
        return True


class RepeatedLines(logging.Filter):
    """For a handler: of warnings and errors that are the same word for word, one in `AGAIN_S`, and how many it was.

    Lines with a traceback all go. `clock`: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: OrderedDict[tuple[str, int, str], tuple[float, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it goes."""
        if record.levelno < logging.WARNING or record.exc_info or _is_strangers(record):
            return True
        said: Any = record.msg
        is_event = isinstance(said, dict)
        words = repr({**said, "timestamp": ""}) if is_event else record.getMessage()
        key, now = (record.name, record.levelno, words), self._clock()
        at, left_out = self._said.pop(key, (now - AGAIN_S, 0))
        goes = now - at >= AGAIN_S
        self._said[key] = (now, 0) if goes else (at, left_out + 1)
        if len(self._said) > _KEYS:
            self._said.popitem(last=False)
        if goes and left_out and is_event:
            record.msg = {**said, "repeated": left_out}
        elif goes and left_out:
            record.msg, record.args = f"{words} (repeated: {left_out})", ()
        return goes


def _is_strangers(record: logging.LogRecord) -> bool:
    return any(record.name == name or record.name.startswith(f"{name}.") for name in STRANGERS)
