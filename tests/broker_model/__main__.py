"""`python -m tests.broker_model --sequences N --seed S`: the broker model against real clusters.

The versions are asked one after the other. The last line is the verdict on all of them; what comes before it are
differences, and nothing when there are none.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gateway.devcluster import DevCluster
from protocol.apis import ApiKey
from protocol.messages import FindCoordinatorRequest, InitProducerIdRequest
from tests.broker_model.normal import unlike
from tests.broker_model.recording import Recorded, Recording
from tests.broker_model.run import Difference, Pair, make_plan
from tests.broker_model.sides import AUTHORIZER, CONFIGS, RealSide
from tests.support.brokers.clusters import running_cluster

VERSIONS = ("3.9.1", "4.3.1")
_LENGTH = 40
_GIVE_UP_AFTER = 20
_WARM_S = 30.0


async def _warm_up(real: RealSide) -> None:
    """Have the internal topics made, and the first producer id (0, which looks like none) given to nobody."""
    deadline = time.monotonic() + _WARM_S
    for kind in (0, 1):
        ask = FindCoordinatorRequest(key="warm", key_type=kind)
        while (await real.send(real.nodes[0], "warm", ApiKey.FIND_COORDINATOR, 2, ask)).error_code:
            if time.monotonic() > deadline:
                raise SystemExit("broker-model: the cluster's coordinators did not come up: look at its logs")
    message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    for node in real.nodes:
        while (await real.send(node, "warm", ApiKey.INIT_PRODUCER_ID, 1, message)).error_code:
            if time.monotonic() > deadline:
                raise SystemExit("broker-model: the cluster gives out no producer ids: look at its logs")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


@dataclass(slots=True)
class Sums:
    """What was compared so far, and how much of it differed. `requests`: sent to real brokers."""

    sequences: int = 0
    requests: int = 0
    differences: int = 0

    @property
    def passed(self) -> bool:
        """Nothing compared is nothing shown: that does not pass, either."""
        return bool(self.sequences and self.requests) and not self.differences

    @property
    def verdict(self) -> str:
        """The last line of a run."""
        word = "PASS" if self.passed else "FAIL"
        numbers = f"sequences={self.sequences} requests={self.requests} differences={self.differences}"
        return f"broker-model: {word} {numbers}"


def _show(number: int, kafka: str, seed: int, found: Difference) -> None:
    _say(f"\ndifference {number}: Kafka {kafka}, seed {seed}, the last of {len(found.plan)} steps:")
    for planned in found.plan:
        _say(f"    {planned.kind} {planned.seed}")
    for line in unlike([list(each) for each in found.real], [list(each) for each in found.model]):
        _say(f"  {line}")
    _say(f"  asked: {[label for label, _ in found.real]}")
    _say(f"  real:  {found.real}")
    _say(f"  model: {found.model}")


async def _compare(cluster: DevCluster, kafka: str, options: argparse.Namespace, sums: Sums) -> None:
    pair = await _pair(cluster, kafka, options)
    for seed in range(options.seed, options.seed + options.sequences):
        found = await pair.compare(make_plan(seed, options.steps))
        sums.sequences += 1
        if found is not None:
            sums.differences += 1
            _show(sums.differences, kafka, seed, found if options.no_shrink else await pair.shrink(found))
            if sums.differences >= options.give_up_after:
                break
    sums.requests += pair.requests


async def _pair(cluster: DevCluster, kafka: str, options: argparse.Namespace) -> Pair:
    addresses = {node.node_id: ("127.0.0.1", node.client_port) for node in cluster.spec.nodes}
    real = RealSide(addresses, time.time)
    await _warm_up(real)
    return Pair(real, kafka, len(addresses), f"s{options.seed}")


async def _record(cluster: DevCluster, kafka: str, options: argparse.Namespace) -> None:
    pair = await _pair(cluster, kafka, options)
    recording = Recording(kafka, options.brokers)
    for seed in range(options.seed, options.seed + options.sequences):
        plan = make_plan(seed, options.steps)
        recording.sequences[seed] = Recorded(*await pair.ask_real(plan))
        recording.save(options.record)
    _say(f"broker-model: recorded sequences={len(recording.sequences)} requests={pair.requests}")


def _replay(options: argparse.Namespace, sums: Sums) -> None:
    recording = Recording.load(options.replay)
    for seed in recording.sequences:
        found, sent = recording.compare(seed)
        sums.sequences += 1
        sums.requests += sent
        if found is not None:
            sums.differences += 1
            _show(sums.differences, recording.kafka, seed, found)


def _on_cluster(
    kafka: str, options: argparse.Namespace, work: Callable[[DevCluster], Coroutine[Any, Any, None]]
) -> None:
    """Start a fresh cluster of a version, and do the work with it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="broker-model-")))
        start = running_cluster(
            "broker-model", kafka, folder, brokers=options.brokers, properties={**CONFIGS, **AUTHORIZER}
        )
        asyncio.run(work(stack.enter_context(start)))


def main(arguments: Sequence[str]) -> int:
    """0 when all answers are the same."""
    parser = argparse.ArgumentParser(prog="python -m tests.broker_model", description=__doc__)
    parser.add_argument("--sequences", type=int, default=50)
    parser.add_argument("--steps", type=int, default=_LENGTH, help="steps of each sequence")
    parser.add_argument("--seed", type=int, default=1, help="of the first sequence; the next ones have the next seeds")
    parser.add_argument("--kafka", choices=VERSIONS, nargs="+", default=VERSIONS)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--no-shrink", action="store_true", help="show differences with all steps before them")
    parser.add_argument("--give-up-after", type=int, default=_GIVE_UP_AFTER, help="differences")
    parser.add_argument("--record", type=Path, help="write the real answers to this file, compare nothing")
    parser.add_argument("--replay", type=Path, help="compare the model with such a file; no cluster is started")
    options = parser.parse_args(arguments)
    if options.record is not None and len(options.kafka) != 1:
        parser.error(f"--record: a file has the answers of one version: name it, --kafka {VERSIONS[-1]}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the cluster is stopped on the way out
    if options.record is not None:
        (kafka,) = options.kafka
        _on_cluster(kafka, options, partial(_record, kafka=kafka, options=options))
        return 0
    sums = Sums()
    if options.replay is not None:
        _replay(options, sums)
    else:
        for kafka in options.kafka:
            _on_cluster(kafka, options, partial(_compare, kafka=kafka, options=options, sums=sums))
    _say(sums.verdict)
    return 0 if sums.passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
