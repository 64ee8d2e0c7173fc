"""Members of one group that only first request: each sends its first JoinGroup and waits for the answer.

    python -m bench.clients.waiting_members BOOTSTRAP GROUP TOPIC --members 500

Prints `joined` when all have sent, and `{"first": …, "last": …}` when all were answered: seconds of the monotonic
clock, which all processes of a machine share.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from typing import Final

import uvloop

from bench.clients.raw import address, api_versions, join_group, read_frame
from protocol.errors import ErrorCode

_ERROR: Final = slice(8, 10)
"""Of a JoinGroup v5 response: after correlation id and throttle time."""


async def _run(args: argparse.Namespace) -> None:
    host, port = address(args.bootstrap)
    gate = asyncio.Semaphore(50)

    async def join() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with gate:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(api_versions())
            await read_frame(reader)
            writer.write(join_group(args.group, args.topic))
            await writer.drain()
            return reader, writer

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> float:
        """When the target's coordinator gave this member its id; until then the gate asks it to come again."""
        while True:
            frame = await read_frame(reader)
            code = int.from_bytes(frame[_ERROR], "big")
            if code == ErrorCode.MEMBER_ID_REQUIRED:
                return time.monotonic()
            if code != ErrorCode.UNKNOWN_MEMBER_ID:
                sys.exit(f"a member was answered with error {code}")
            writer.write(join_group(args.group, args.topic))

    members = await asyncio.gather(*(join() for _ in range(args.members)))
    sys.stdout.write("joined\n")
    sys.stdout.flush()
    times = await asyncio.gather(*(answered(*member) for member in members))
    sys.stdout.write(json.dumps({"first": min(times), "last": max(times)}) + "\n")
    sys.stdout.flush()
    for _, writer in members:
        writer.close()


def main() -> None:
    """Join and wait."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("group")
    parser.add_argument("topic")
    parser.add_argument("--members", type=int, required=True)
    uvloop.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
