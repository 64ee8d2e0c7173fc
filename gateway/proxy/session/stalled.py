"""A request that waits for something, and its connection with it: then it is handled, or given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.proxy.session.session import Session


def hold(
    session: Session,
    seconds: float,
    register: Callable[[Callable[[], None]], Callable[[], None]],
    ready: Callable[[], None],
    too_late: Callable[[], None],
) -> None:
    """Stall the session; end that with `ready`, after `seconds` with `too_late`, or when the connection ends.

    Args:
        register: gets what is to be called when it has come to pass, returns what ends the wait for it.
    """
    session.stall()

    def done(action: Callable[[], None]) -> None:
        timer.cancel()
        leave()
        if not session.closed:
            session.on_close.remove(closed)
            session.again(action)

    def closed() -> None:
        timer.cancel()
        leave()

    leave = register(lambda: done(ready))
    timer = session.context.loop.call_later(seconds, lambda: done(too_late))
    session.on_close.append(closed)
