"""The feed: one look a second while somebody listens, computed once, and what has changed told to all (SSE).

https://html.spec.whatwg.org/multipage/server-sent-events.html. A listener that does not take what it is told is told
no changes any more, and everything anew once it does; so nothing piles up. A look may not cost clients anything: the
next one comes after `_SHARE` times as long as it took, and the more bytes a change has, the later.

A stream ends after `STREAM_S`, and the page asks again: a token that is known no more ends with it. Nobody has all
places: a caller has `LISTENERS_OF_ONE`; of an admin, who always gets one, the oldest stream ends when there are more.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import structlog

from gateway.console.rules.sections import Snapshot, changes

LISTENERS: Final = 32
LISTENERS_OF_ONE: Final = 4
STREAM_S: Final = 600.0
EVERY_S: Final = 1.0
_SHARE: Final = 20.0  # of the event loop's time a look takes a twentieth at most
_SELDOM_S: Final = 5.0  # on a busy machine a look takes long whatever it costs
_BYTES_PER_S: Final = 200_000  # told to each listener at most, in the mean
_QUEUED: Final = 8
_log = structlog.get_logger("lockgate.console")


class Trouble(Exception):
    """No snapshot can be had now; the message is for people."""


class TooManyListeners(Exception):
    """As many listen as may."""


class Listener:
    """One place of the feed, from `Feed.enter` to `Feed.leave`. `caller`: who has it."""

    def __init__(self, caller: str) -> None:
        self.caller = caller
        self.told: asyncio.Queue[bytes | None] = asyncio.Queue(_QUEUED)
        self.behind = True  # it is told everything next

    def offer(self, change: bytes, whole: Callable[[], bytes]) -> None:
        """A change, or all when it is behind; nothing while it does not take what it was told."""
        if self.behind and self.told.empty():
            self.told.put_nowait(whole())
            self.behind = False
        elif not self.behind:
            try:
                self.told.put_nowait(change)
            except asyncio.QueueFull:
                self.behind = True

    def end(self) -> None:
        """Its stream ends with what it has been told."""
        if self.told.full():
            self.told.get_nowait()
        self.told.put_nowait(None)


class Feed:
    """Args.

    look: the snapshot of now; raises Trouble.
    clock: monotonic seconds.
    """

    def __init__(self, look: Callable[[], Awaitable[Snapshot]], clock: Callable[[], float]) -> None:
        self._look = look
        self._clock = clock
        self._listeners: dict[Listener, None] = {}  # in the order of their coming
        self._last: Snapshot = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def listeners(self) -> int:
        """How many there are."""
        return len(self._listeners)

    def enter(self, caller: str, *, is_admin: bool = False) -> Listener:
        """A place, which is the caller's until it is left. Raises TooManyListeners."""
        own = [each for each in self._listeners if each.caller == caller]
        if is_admin:
            for oldest in own[: max(0, len(own) + 1 - LISTENERS_OF_ONE)]:
                oldest.end()
                self.leave(oldest)
        elif len(own) >= LISTENERS_OF_ONE:
            raise TooManyListeners(f"{caller} has {LISTENERS_OF_ONE} consoles at this gateway already: close one")
        elif len(self._listeners) >= LISTENERS:
            raise TooManyListeners(f"{LISTENERS} consoles listen to this gateway already: close one, or use another")
        listener = Listener(caller)
        self._listeners[listener] = None
        return listener

    def leave(self, listener: Listener) -> None:
        """The place is free; one that was left already may be."""
        self._listeners.pop(listener, None)

    async def listen(self, listener: Listener, hello: Mapping[str, Any]) -> AsyncIterator[bytes]:
        """The stream: `hello`, then `all`, then `change` after `change`; `trouble` when nothing can be told."""
        ends = self._clock() + STREAM_S
        try:
            if self._closed:
                return
            yield encoded("hello", hello)
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._run(), name="console feed")
            while (left := ends - self._clock()) > 0:
                try:
                    async with asyncio.timeout(left):
                        told = await listener.told.get()
                except TimeoutError:
                    return
                if told is None:
                    return
                yield told
        finally:
            self.leave(listener)

    async def close(self) -> None:
        """End all streams."""
        self._closed = True
        for listener in self._listeners:
            listener.end()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while self._listeners:
            began = self._clock()
            told = await self._tell()
            took = self._clock() - began
            rest = max(EVERY_S - took, took * _SHARE, told / _BYTES_PER_S)
            await asyncio.sleep(min(rest, _SELDOM_S))
        self._last = {}

    async def _tell(self) -> int:
        """Bytes that each listener was told."""
        try:
            now = await self._look()
        except Trouble as exc:
            change = encoded("trouble", {"message": str(exc)})
            for listener in self._listeners:
                if listener.told.empty():
                    listener.told.put_nowait(change)
            return len(change)
        except Exception:  # noqa: BLE001 - a fault of the console stays in the console
            _log.exception("the console's snapshot failed")
            return 0
        change = encoded("change", changes(self._last, now))
        self._last = now
        made: list[bytes] = []

        def whole() -> bytes:
            if not made:
                made.append(encoded("all", now))
            return made[0]

        for listener in self._listeners:
            listener.offer(change, whole)
        return max(len(change), *(len(each) for each in made), 0) if made else len(change)


def encoded(event: str, data: Any) -> bytes:
    """One event. JSON has no line breaks of its own, so `data` is one line."""
    return f"event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
