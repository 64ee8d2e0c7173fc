"""A `lockgate serve` process: one gateway, until a signal or a failure ends it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import structlog
import uvloop

from gateway.config.settings import Settings
from gateway.runtime.gateway import Gateway, StartError
from gateway.runtime.limits import set_limits
from gateway.runtime.memory import find_trim, keep_trimmed
from gateway.transport.background import kept_running

_log = structlog.get_logger("lockgate")
CLOSE_S = 28.0  # what sends SIGTERM commonly waits for 30 s before SIGKILL


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code: 0, or 1 when it could not start or go on."""
    set_limits()
    try:
        return uvloop.run(_serve(settings))
    except StartError as error:
        _log.error("cannot start", reason=str(error))
        return 1


async def _serve(settings: Settings) -> int:
    gateway = Gateway(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, gateway.stop)
    trimming = asyncio.create_task(kept_running(lambda: keep_trimmed(find_trim()), "memory"), name="memory")
    try:
        await gateway.start()
        await gateway.stopped.wait()
    finally:
        trimming.cancel()
        await _close(gateway)
        _log.info("stopped")
    return 1 if gateway.failed else 0


async def _close(gateway: Gateway) -> None:
    """Take the gateway down. What does not end by itself, such as a thread that waits for a target, is left behind."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await gateway.close()
    except TimeoutError:
        _log.error("the gateway did not come to its end in time: it is cut off", limit_s=CLOSE_S)
        sys.stdout.flush()
        os._exit(1)
