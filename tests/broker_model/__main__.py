"""`python -m tests.broker_model --sequences N --seed S --kafka 4.3.1`: the broker model against a real cluster."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from gateway.devcluster import DevCluster
from protocol.apis import ApiKey
from protocol.messages import FindCoordinatorRequest, InitProducerIdRequest
from tests.broker_model.normal import unlike
from tests.broker_model.recording import Recorded, Recording
from tests.broker_model.run import Difference, Pair, make_plan
from tests.broker_model.sides import CONFIGS, RealSide
from tests.support.clusters import running_cluster

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


def _show(number: int, seed: int, found: Difference) -> None:
    _say(f"\ndifference {number}: seed {seed}, the last of {len(found.plan)} steps:")
    for planned in found.plan:
        _say(f"    {planned.kind} {planned.seed}")
    for line in unlike([list(each) for each in found.real], [list(each) for each in found.model]):
        _say(f"  {line}")
    _say(f"  asked: {[label for label, _ in found.real]}")
    _say(f"  real:  {found.real}")
    _say(f"  model: {found.model}")


async def _compare(cluster: DevCluster, options: argparse.Namespace) -> int:
    pair = await _pair(cluster, options)
    differences = sequences = 0
    for seed in range(options.seed, options.seed + options.sequences):
        found = await pair.compare(make_plan(seed, options.steps))
        sequences += 1
        if found is not None:
            differences += 1
            _show(differences, seed, found if options.no_shrink else await pair.shrink(found))
            if differences >= options.give_up_after:
                break
    return _verdict(sequences, pair.requests, differences)


async def _pair(cluster: DevCluster, options: argparse.Namespace) -> Pair:
    addresses = {node.node_id: ("127.0.0.1", node.client_port) for node in cluster.spec.nodes}
    real = RealSide(addresses, time.time)
    await _warm_up(real)
    return Pair(real, options.kafka, len(addresses), f"s{options.seed}")


async def _record(cluster: DevCluster, options: argparse.Namespace) -> int:
    pair = await _pair(cluster, options)
    recording = Recording(options.kafka, options.brokers)
    for seed in range(options.seed, options.seed + options.sequences):
        plan = make_plan(seed, options.steps)
        recording.sequences[seed] = Recorded(*await pair.ask_real(plan))
        recording.save(options.record)
    _say(f"broker-model: recorded sequences={len(recording.sequences)} requests={pair.requests}")
    return 0


def _replay(options: argparse.Namespace) -> int:
    recording = Recording.load(options.replay)
    differences = requests = 0
    for seed in recording.sequences:
        found, sent = recording.compare(seed)
        requests += sent
        if found is not None:
            differences += 1
            _show(differences, seed, found)
    return _verdict(len(recording.sequences), requests, differences)


def _verdict(sequences: int, requests: int, differences: int) -> int:
    verdict = "FAIL" if differences else "PASS"
    _say(f"broker-model: {verdict} sequences={sequences} requests={requests} differences={differences}")
    return 1 if differences else 0


def main(arguments: Sequence[str]) -> int:
    """0 when all answers are the same."""
    parser = argparse.ArgumentParser(prog="python -m tests.broker_model", description=__doc__)
    parser.add_argument("--sequences", type=int, default=50)
    parser.add_argument("--steps", type=int, default=_LENGTH, help="steps of each sequence")
    parser.add_argument("--seed", type=int, default=1, help="of the first sequence; the next ones have the next seeds")
    parser.add_argument("--kafka", choices=("3.9.1", "4.3.1"), default="4.3.1")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--no-shrink", action="store_true", help="show differences with all steps before them")
    parser.add_argument("--give-up-after", type=int, default=_GIVE_UP_AFTER, help="differences")
    parser.add_argument("--record", type=Path, help="write the real answers to this file, compare nothing")
    parser.add_argument("--replay", type=Path, help="compare the model with such a file; no cluster is started")
    options = parser.parse_args(arguments)
    if options.replay is not None:
        return _replay(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the cluster is stopped on the way out
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="broker-model-")))
        start = running_cluster(
            "broker-model", options.kafka, folder, brokers=options.brokers, properties=dict(CONFIGS)
        )
        return asyncio.run((_record if options.record else _compare)(stack.enter_context(start), options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
