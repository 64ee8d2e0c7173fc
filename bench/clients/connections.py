"""Many connections at once: some idle, some busy.

    python -m bench.clients.connections BOOTSTRAP TOPIC --partitions 6 --idle 1000 --busy 200 --rate 2000 --seconds 5

Opens the idle ones (each asks ApiVersions once), prints `idle` and waits for a line. Then each busy one sends one
record at a time, evenly spread; prints a line of JSON with the round trips' percentiles.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from typing import Final

import uvloop

from bench.clients.raw import address, api_versions, produce, read_frame
from bench.stats import percentile

_RECORD_BYTES: Final = 100
_AT_ONCE: Final = 50

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _open_all(bootstrap: str, count: int) -> list[Connection]:
    gate = asyncio.Semaphore(_AT_ONCE)
    host, port = address(bootstrap)

    async def one() -> Connection:
        async with gate:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(api_versions())
            await read_frame(reader)
            return reader, writer

    return list(await asyncio.gather(*(one() for _ in range(count))))


async def _keep_busy(connection: Connection, request: bytes, first: float, step: float, end: float) -> list[float]:
    """Milliseconds of each round trip. A late one is not made up for."""
    reader, writer = connection
    times: list[float] = []
    due = first
    while due < end:
        await asyncio.sleep(due - time.monotonic())
        began = time.monotonic()
        writer.write(request)
        await read_frame(reader)
        done = time.monotonic()
        times.append((done - began) * 1000)
        due = max(due + step, done)
    return times


async def _run(args: argparse.Namespace) -> None:
    idle = await _open_all(args.bootstrap, args.idle)
    sys.stdout.write("idle\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)
    busy = await _open_all(args.bootstrap, args.busy)
    step = args.busy / args.rate
    start = time.monotonic() + 0.2
    value = bytes(_RECORD_BYTES)
    runs = [
        _keep_busy(
            connection,
            produce(args.topic, number % args.partitions, value),
            start + step * number / args.busy,
            step,
            start + args.seconds,
        )
        for number, connection in enumerate(busy)
    ]
    times = sorted(one for each in await asyncio.gather(*runs) for one in each)
    seen = {"requests": len(times), "p50_ms": percentile(times, 50), "p99_ms": percentile(times, 99)}
    sys.stdout.write(json.dumps(seen) + "\n")
    sys.stdout.flush()
    for _, writer in (*idle, *busy):
        writer.close()


def main() -> None:
    """Open, wait, be busy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--idle", type=int, required=True)
    parser.add_argument("--busy", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True, help="requests per second of all busy connections")
    parser.add_argument("--seconds", type=float, required=True)
    uvloop.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
