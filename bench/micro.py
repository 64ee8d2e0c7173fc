"""Micro-benchmarks of the hot path, for pyperf: each with 1, 4 and 16 times the work, which should cost as much more.

python bench/micro.py --fast [-o micro.json]          see `python bench/micro.py --help`
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pyperf  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # pyperf runs this file again, by its path

from bench.clients.raw import batch_around
from bench.passing import forwarding, passing
from gateway.cutover.write_pause.rules.routing import TopicRoute, routing_of
from gateway.cutover.write_pause.rules.write_pause import Recorded, WritePause
from gateway.proxy.produce.produce_plan import plan_produce
from gateway.state.records import MirrorState
from protocol.apis import ApiKey
from protocol.batch.header import iter_batches, rewrite_batch
from protocol.fetch import FetchPartition, FetchSessionId
from protocol.fetch import build_request_body as build_fetch
from protocol.framing import FrameReader
from protocol.header import frame_request, frame_response, peek_request_header
from protocol.produce import PartitionResult, ProducePart, build_request_body, build_response_body, scan_request

TIMES: Final = (1, 4, 16)
_VERSION: Final = 9
_FETCH_VERSION: Final = 15
_BATCH: Final = 16_384 - 61
_PAUSE: Final = WritePause(Recorded(MirrorState.ACTIVE, 0))
_ROUTE: Final = TopicRoute(link="l", mirror_topic="t", source_topic="t", pause=_PAUSE)
_ROUTING: Final = routing_of({"t": _ROUTE})


def framing(times: int) -> Callable[[], object]:
    """Cut a stream of 16 frames of 16 KB (× times) that arrives in pieces of 64 KiB."""
    stream = frame_request(int(ApiKey.PRODUCE), _VERSION, 1, "client", bytes(_BATCH)) * 16
    pieces = [stream[at : at + 65_536] for at in range(0, len(stream), 65_536)] * times

    def run() -> None:
        reader = FrameReader()
        for piece in pieces:
            reader.feed(piece)

    return run


def header_peek(times: int) -> Callable[[], object]:
    """Look at 16 request headers (× times)."""
    frames = [frame_request(int(ApiKey.PRODUCE), _VERSION, 1, "client", b"")[4:]] * (16 * times)

    def run() -> None:
        for frame in frames:
            peek_request_header(frame)

    return run


def produce_split(times: int) -> Callable[[], object]:
    """Scan a Produce of 6 partitions (× times), each with a batch of 16 KB, and sort them by destination."""
    batch = batch_around(bytes(_BATCH), 16)
    pieces = build_request_body(_VERSION, None, -1, 30_000, {"t": [(index, batch) for index in range(6 * times)]})
    body = b"".join(pieces)

    def run() -> None:
        view = scan_request(body, _VERSION)
        plan_produce([ProducePart(*part) for part in view.parts], _ROUTING, _leader, _leased)

    return run


def batch_rewrite(times: int) -> Callable[[], object]:
    """Rewrite the headers of 16 batches of 16 KB (× times), as the mirror does."""
    fetched = memoryview(batch_around(bytes(_BATCH), 16) * (16 * times))

    def run() -> None:
        for _, batch in iter_batches(fetched):
            rewrite_batch(batch, producer_id=1 << 50, sequence=7)

    return run


def pass_fetch(times: int) -> Callable[[], object]:
    """Pass on 16 Fetches (× times) of one topic, and empty answers."""
    part: dict[str | bytes, list[FetchPartition]] = {bytes(range(16)): [FetchPartition(0, 0)]}
    body = build_fetch(_FETCH_VERSION, part, session=FetchSessionId(1, 1))
    return passing(frame_request(int(ApiKey.FETCH), _FETCH_VERSION, 1, "client", body), 16 * times)


def pass_produce(times: int) -> Callable[[], object]:
    """Pass on 16 Produces (× times) of one topic with a batch of 1 KB, and empty answers."""
    return passing(_produce(["a-topic"]), 16 * times)


def pass_produce_topics(times: int) -> Callable[[], object]:
    """Pass on 16 Produces of 4 topics (× times), each with a batch of 1 KB, and empty answers."""
    return passing(_produce([f"a-topic-{index}" for index in range(4 * times)]), 16)


def forward_produce(times: int) -> Callable[[], object]:
    """Forward 16 Produces (× times) of one record of 1 KB, which come together, and their answers."""
    requests = _produce(["a-topic"]) * (16 * times)
    body = build_response_body(_VERSION, [PartitionResult("a-topic", 0, 0, 7)])
    answers = b"".join(frame_response(int(ApiKey.PRODUCE), _VERSION, number, body) for number in range(16 * times))
    return forwarding("a-topic", requests, answers, 1)


def forward_produce_partitions(times: int) -> Callable[[], object]:
    """Forward a Produce of 6 partitions (× times) with batches of 10 KB, and its answer."""
    partitions = range(6 * times)
    batch = batch_around(bytes(10_000 - 61), 10)
    body = b"".join(build_request_body(_VERSION, None, -1, 30_000, {"a-topic": [(each, batch) for each in partitions]}))
    answer = build_response_body(_VERSION, [PartitionResult("a-topic", each, 0, 7) for each in partitions])
    request = frame_request(int(ApiKey.PRODUCE), _VERSION, 1, "client", body)
    return forwarding("a-topic", request, frame_response(int(ApiKey.PRODUCE), _VERSION, 0, answer), 1)


def _produce(topics: Sequence[str]) -> bytes:
    batch = batch_around(bytes(963), 1)
    body = b"".join(build_request_body(_VERSION, None, -1, 30_000, {topic: [(0, batch)] for topic in topics}))
    return frame_request(int(ApiKey.PRODUCE), _VERSION, 1, "client", body)


def _leased() -> bool:
    return True


def _leader(link: str, topic: str, partition: int) -> int | None:
    return partition % 3


def _cpu_time(loops: int, run: Callable[[], object]) -> float:
    """CPU seconds, not wall time: the machine is hardly ever ours alone."""
    began = time.process_time()
    for _ in range(loops):
        run()
    return time.process_time() - began


_BENCHMARKS: Final = (
    framing,
    header_peek,
    produce_split,
    batch_rewrite,
    pass_fetch,
    pass_produce,
    pass_produce_topics,
    forward_produce,
    forward_produce_partitions,
)


def main() -> None:
    """Run them all under pyperf."""
    runner = pyperf.Runner()
    for make in _BENCHMARKS:
        for times in TIMES:
            runner.bench_time_func(f"{make.__name__} x{times}", _cpu_time, make(times))


if __name__ == "__main__":
    main()
