"""Losses of the fleet's own topics: a broker that alone had what was acknowledged comes back without the end of it.

Runs of a seed from `LOSSES_FROM` on have them, in place of every third fault of a process. The topic is left to its
leader (the other replicas are taken from it, one that has a record is enough then), that broker is killed, the last
batches of its log are cut off, and it starts again: as after a power failure that took what the disk had not written.
Only by its epochs does the log tell. In fleets of three a gateway is killed at the same time, and starts with what the
log has left.

The maps of links are left out: only the gateway that mirrors the partition can write again what they lose
(`gateway/mirror/offset_map/rules/written_ahead.py`), and other faults of these runs end gateways. Brokers in memory
lose them in `tests/unit/mirror/offset_map/test_written_ahead.py`.

Which faults, is drawn with dice of their own: plans of the seeds before stay as they were.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kafka.errors import KafkaError

from gateway.proxy.transactions import identities
from gateway.state import topic as state
from tests.chaos.clusters import UP_S, ChaosCluster
from tests.chaos.lab import Lab
from tests.chaos.plan import Nemesis, Plan, is_quiet
from tests.support.waiting import wait_until

LOSSES_FROM: Final = 10_000
LOSSES: Final = {"state-lost": state.TOPIC, "identities-lost": identities.TOPIC}
"""Nemesis -> the topic that loses its end."""
_KINDS: Final = ("state-lost", "identities-lost", "state-lost")
_EVERY: Final = 3
_HOLD_S: Final = (0.0, 1.5)
_MOST_BATCHES: Final = 8
_WITH_RESTART: Final = 3
"""Gateways of a fleet: one is killed meanwhile, another one may be by an aimed fault, the third one remembers."""
_BASE_OFFSET: Final = slice(0, 8)
_LENGTH: Final = slice(8, 12)
_HEADER: Final = 12


def with_losses(plan: Plan, without: frozenset[str] = frozenset()) -> Plan:
    """The plan with losses among its faults; as it was for seeds before LOSSES_FROM, and with one gateway: nobody else
    has what its topics lose.

    Args:
        without: kinds of faults that are left out.
    """
    if plan.seed < LOSSES_FROM or plan.gateways == 1:
        return plan
    dice = random.Random(f"losses/{plan.seed}/{plan.duration_s:g}/{plan.gateways}")
    some = [n.number for n in plan.nemeses if n.lane == "processes" and not is_quiet(n.at_s)]
    kinds = {number: _KINDS[turn % len(_KINDS)] for turn, number in enumerate(some[dice.randrange(2) :: _EVERY])}
    restarts = plan.gateways >= _WITH_RESTART and "gateway-kill" not in without

    def with_loss(nemesis: Nemesis) -> Nemesis:
        if nemesis.number not in kinds:
            return nemesis
        hold_s, restarted = round(dice.uniform(*_HOLD_S), 2), dice.random() < 0.5
        gateway = nemesis.gateway if restarted and restarts else -1
        return replace(nemesis, kind=kinds[nemesis.number], side="target", broker=0, gateway=gateway, hold_s=hold_s)

    nemeses = [with_loss(nemesis) for nemesis in plan.nemeses]
    return replace(plan, nemeses=tuple(n for n in nemeses if n.kind not in without))


@dataclass(frozen=True, slots=True)
class Cut:
    """What a log has lost: batches, of the records from this offset on."""

    batches: int
    first_offset: int


def cut_tail(folder: Path, batches: int) -> Cut:
    """Cut so many batches off the end of a partition's log, whose broker has ended; one stays in its last segment.

    Indexes and snapshots of producers go along: a broker that was killed makes them anew.
    """
    segments = [path for path in sorted(folder.glob("*.log")) if path.stat().st_size]
    if not segments:
        return Cut(0, -1)
    data = segments[-1].read_bytes()
    starts, at = [], 0
    while at + _HEADER <= len(data):
        starts.append(at)
        at += _HEADER + int.from_bytes(data[at:][_LENGTH])
    lost = starts[max(1, len(starts) - batches) :]
    if not lost:
        return Cut(0, -1)
    first = int.from_bytes(data[lost[0] :][_BASE_OFFSET])
    with segments[-1].open("r+b") as file:
        file.truncate(lost[0])
    for stale in (*folder.glob("*index"), *folder.glob("*.snapshot")):
        if stale.suffix != ".snapshot" or int(stale.stem) > first:
            stale.unlink()
    return Cut(len(lost), first)


def lose(lab: Lab, nemesis: Nemesis) -> Callable[[], None]:
    """The leader of the topic is killed and loses the last batches; what is returned starts it, and makes the topic
    what it was."""
    cluster, topic = lab.target, LOSSES[nemesis.kind]
    dice = random.Random(nemesis.number)
    replicas = cluster.replicas(topic)
    if not replicas:  # no transactional id yet
        topic = state.TOPIC
        replicas = cluster.replicas(topic)
    leader = cluster.leader(topic)
    cluster.set_config(topic, "min.insync.replicas", "1")
    _leave_to(cluster, topic, [leader])
    restarted = None if nemesis.gateway < 0 else lab.gateways[nemesis.gateway]
    cluster.kill_broker(leader)
    if restarted is not None:
        restarted.kill()
    cut = cut_tail(cluster.nodes[leader].data / f"{topic}-0", dice.randint(1, _MOST_BATCHES))
    lab.told[nemesis.number] = {
        "topic": topic,
        "broker": leader,
        "lost_batches": cut.batches,
        "lost_from_offset": cut.first_offset,
    }

    def mend() -> None:
        cluster.nodes[leader].start()
        if restarted is not None:
            restarted.start()  # it reads what is left, before the others have written the rest again
        cluster.wait_up(UP_S)
        # A broker that was killed is nobody's replica in sync any more (KIP-966), so nobody is elected by himself.
        wait_until(lambda: _is_led(cluster, topic), UP_S, what=f"{topic} led again")
        _leave_to(cluster, topic, replicas)
        cluster.set_config(topic, "min.insync.replicas", "2")
        cluster.restart_broker(leader)
        if restarted is not None:
            restarted.wait_up()

    return mend


def _leave_to(cluster: ChaosCluster, topic: str, replicas: list[int]) -> None:
    def is_left() -> bool:
        if sorted(cluster.in_sync(topic)) == sorted(replicas) and sorted(cluster.replicas(topic)) == sorted(replicas):
            return True
        with suppress(KafkaError, OSError):
            cluster.reassign(topic, replicas)
        return False

    wait_until(is_left, UP_S, what=f"{topic} on brokers {replicas}")


def _is_led(cluster: ChaosCluster, topic: str) -> bool:
    if cluster.is_led(topic):
        return True
    with suppress(KafkaError, OSError):
        cluster.elect_whoever_is_there(topic)
    return False
