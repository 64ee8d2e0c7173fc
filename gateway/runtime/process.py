"""A `lockgate serve` process: one gateway, or the supervisor of its workers, until a signal or a failure ends it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import structlog
import uvloop

from gateway.config.settings import Settings
from gateway.runtime.free_ports import StartError, require_free
from gateway.runtime.garbage import spare_what_stays
from gateway.runtime.gateway import Gateway
from gateway.runtime.limits import set_limits
from gateway.runtime.memory import find_trim, keep_trimmed
from gateway.runtime.workers.share import ALONE, Worker, settings_of, workers_of
from gateway.runtime.workers.supervisor import Life, Supervisor
from gateway.transport.background import kept_running
from gateway.transport.loop_watch import keep_watching

_log = structlog.get_logger("lockgate")
CLOSE_S = 28.0  # what sends SIGTERM commonly waits for 30 s before SIGKILL
_WORKERS_CLOSE_S = 29.0
SWITCH_S = 0.001
"""How long a thread that computes keeps the event loop waiting, each time that the loop comes back from the system.
Python's own five milliseconds are a thousand requests a second less."""


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code: 0, or 1 when it could not start or go on."""
    set_limits()
    count = workers_of(settings)
    if count == 1:
        return uvloop.run(_serve(settings))
    try:
        require_free(settings)
    except StartError as error:
        _log.error("cannot start", reason=str(error))
        return 1
    return Supervisor(
        count, lambda index, life: _run_worker(settings, Worker(index, count), life), _WORKERS_CLOSE_S, time.monotonic
    ).run()


def _run_worker(settings: Settings, worker: Worker, life: Life) -> int:
    structlog.contextvars.bind_contextvars(worker=worker.index + 1)
    return uvloop.run(_serve(settings_of(settings, worker), worker, life))


async def _serve(settings: Settings, worker: Worker = ALONE, life: Life | None = None) -> int:
    sys.setswitchinterval(SWITCH_S)
    gateway = Gateway(settings, worker=worker)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, gateway.stop)
    if life is not None:
        loop.add_reader(life.parent, _stop_alone, gateway, life)
    beside = [
        asyncio.create_task(kept_running(lambda: keep_trimmed(find_trim()), "memory"), name="memory"),
        asyncio.create_task(kept_running(lambda: keep_watching(gateway.watched_by), "loop watch"), name="loop watch"),
    ]
    try:
        if not await _started(gateway):
            return 0
        spare_what_stays()
        if life is not None:
            life.serves()
        await gateway.stopped.wait()
    except StartError as error:
        _log.error("cannot start", reason=str(error))
        return 1
    finally:
        for task in beside:
            task.cancel()
        await _close(gateway)
        _log.info("stopped")
    return 1 if gateway.failed else 0


async def _started(gateway: Gateway) -> bool:
    """Whether it serves: False when it is stopped first, whatever it waits for. Raises StartError."""
    starting = asyncio.create_task(gateway.start(), name="start")
    stopped = asyncio.create_task(gateway.stopped.wait(), name="stopped")
    try:
        await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            await starting
            return True
        return False
    finally:
        starting.cancel()
        stopped.cancel()
        await asyncio.gather(starting, stopped, return_exceptions=True)


def _stop_alone(gateway: Gateway, life: Life) -> None:
    """The supervisor is gone: nobody would start this worker again, or stop it."""
    asyncio.get_running_loop().remove_reader(life.parent)
    _log.error("the supervisor of this worker has ended: it stops")
    gateway.stop()


async def _close(gateway: Gateway) -> None:
    """Take the gateway down. What does not end by itself, such as a thread that waits for a target, is left behind."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await gateway.close()
    except TimeoutError:
        _log.error("the gateway did not come to its end in time: it is cut off", limit_s=CLOSE_S)
        sys.stdout.flush()
        os._exit(1)
