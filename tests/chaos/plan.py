"""What a run does and when: worked out from seed, duration and number of gateways, and from nothing else.

Nemeses come in two lanes, one for networks and one for processes. In each lane one follows the other, so that at most
one node of all clusters is down at a time, and what the two lanes do overlaps at random. Migrations have an
order and no times: each step begins a while after the one before has ended.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

PRODUCERS: Final = "producers"
CALM_S: Final = 6.0
"""Nothing is broken before."""

QUIET_S: Final = (30.0, 42.0, 100.0)
"""From, to, and again after: no network is hurt, gateways end, so that hand-overs can be measured."""

APART_S: Final = 8.0
"""From a fault to an end of a gateway that is measured: what the fault has moved is at rest again."""

AFTER_S: Final = 2.0
"""From there to the next fault."""

NETWORK: Final = {
    "cut-source": 3,
    "cut-target": 3,
    "cut-both": 2,
    "cut-clients": 2,
    "latency": 3,
    "bandwidth": 2,
    "reset-in-mid-frame": 3,
    "lost-answers": 3,
    "slow-close": 1,
    "name-lost": 2,
    "flapping-client": 2,
    "cut-peers": 3,
}
"""Nemesis -> weight."""

PROCESSES: Final = {
    "gateway-kill": 4,
    "gateway-pause": 3,
    "gateway-restart": 2,
    "clock-jump": 2,
    "rolling-restart": 1,
    "broker-kill": 3,
    "controller-kill": 1,
    "coordinator-kill": 1,
    "broker-pause": 2,
    "leaders-move": 3,
    "disk-full": 1,
}

SOURCES: Final = ("3.9.1", "4.3.1")
PIPELINE: Final = ("g-pipeline", "processed")
"""A group whose members write what they read to a set of topics, in one transaction: both go as one."""

TRANSLATED: Final = "transactional"
"""A set in mode translate: it goes over and home twice in each cycle."""

SIDES: Final = ("source", "target")
BROKERS: Final = (1, 2, 3)
SMALL_DISKS: Final = (2, 3)
"""Brokers whose disks can be full."""
_HOLD_S: Final = {
    "cut-clients": (0.5, 2.0),
    "latency": (2.0, 8.0),
    "bandwidth": (2.0, 8.0),
    "lost-answers": (0.5, 2.5),
    "gateway-kill": (0.0, 3.0),
    "gateway-pause": (0.5, 12.0),
    "clock-jump": (1.0, 8.0),
    "gateway-restart": (0.0, 1.0),
    "rolling-restart": (0.0, 0.5),
    "leaders-move": (0.0, 0.0),
    "broker-pause": (1.0, 5.0),
}
_ENDS: Final = ("gateway-kill", "gateway-restart")
_USUALLY_S: Final = (1.0, 4.0)
_PROCESSES_S: Final = 6.0
"""What a fault of a process costs beside its hold: a broker that starts, replicas that come in sync."""


@dataclass(frozen=True, slots=True)
class Nemesis:
    """One fault. `at_s` from the start of the run: not before. `gateway` counts from 0; -1: all of them.

    `side` and `broker`: which of the clusters, which node; "both" and 0 where that does not matter.
    """

    number: int
    lane: str
    at_s: float
    hold_s: float
    kind: str
    gateway: int = -1
    side: str = "both"
    broker: int = 0
    upstream: bool = False


@dataclass(frozen=True, slots=True)
class Aim:
    """A fault in the middle of an operation: `restart` or `kill` of the gateway that leads, or `lost-answers` of the
    source, `delay_s` after the record says that the operation is under way."""

    kind: str
    delay_s: float


AIMS: Final = ("restart", "restart", "kill", "lost-answers")


@dataclass(frozen=True, slots=True)
class Act:
    """One step of a migration: `roll` and `demote` of groups, `promote`, `reverse` and `failback` of topics, `create`;
    `carry` and `fetch_back` of the pipeline; `fail_over` of a topic of its own, restored and failed back. There are
    more in `daily.py`.

    `twice`: two operators ask at once. `force`: although groups still read on the source. `aim`: what strikes.
    """

    kind: str
    what: str
    pause_s: float
    twice: bool = False
    force: bool = False
    aim: Aim | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run. `acts` are more than fit in: what has not begun when the time is over is left out."""

    seed: int
    duration_s: float
    gateways: int
    source_kafka: str
    nemeses: tuple[Nemesis, ...]
    acts: tuple[Act, ...]

    def as_json(self) -> dict[str, Any]:
        """For build/chaos.json."""
        return asdict(self)

    def lines(self) -> list[str]:
        """For a person: faults by time, then the steps in their order."""
        found = [
            f"{n.at_s:7.1f} s  {n.kind:<20}{_where(n)} for {n.hold_s:.1f} s" for n in sorted(self.nemeses, key=_time)
        ]
        steps = " · ".join(_said(act) for act in self.acts[:24])
        return [*found, f"migrations, as many as fit in: {steps} …"]


def source_kafka(seed: int) -> str:
    """The version of the source's brokers."""
    return SOURCES[seed % len(SOURCES)]


def plan(
    seed: int,
    duration_s: float,
    gateways: int,
    sets: tuple[str, ...],
    groups: tuple[str, ...],
    without: frozenset[str] = frozenset(),
) -> Plan:
    """The run of a seed. `sets`: names of topic sets that are promoted as one; `groups`: consumer groups; `without`:
    kinds of faults that are left out, the rest of the plan stays as it is.
    """
    dice = random.Random(f"{seed}/{duration_s:g}/{gateways}")
    network = {kind: weight for kind, weight in NETWORK.items() if gateways > 1 or kind != "cut-peers"}
    nemeses = [
        *_lane(random.Random(dice.random()), "network", network, duration_s, gateways, 0.0),
        *_lane(random.Random(dice.random()), "processes", PROCESSES, duration_s, gateways, _PROCESSES_S),
    ]
    numbered = [Nemesis(**{**asdict(n), "number": i}) for i, n in enumerate(sorted(nemeses, key=_time))]
    return Plan(
        seed=seed,
        duration_s=duration_s,
        gateways=gateways,
        source_kafka=source_kafka(seed),
        nemeses=tuple(n for n in numbered if n.kind not in without),
        acts=tuple(_acts(random.Random(dice.random()), int(duration_s / 20) + 2, sets, groups)),
    )


def _lane(
    dice: random.Random, lane: str, weights: dict[str, int], duration_s: float, gateways: int, extra_s: float
) -> list[Nemesis]:
    found, at_s = [], CALM_S + dice.uniform(0.0, 4.0)
    bag: list[str] = []
    while at_s < duration_s:
        if not bag:  # every kind comes as often as it weighs before one comes more often
            bag = [kind for kind, weight in weights.items() for _ in range(weight)]
            dice.shuffle(bag)
        quiet = is_quiet(at_s)
        if quiet and lane == "network":
            at_s += 1.0
            continue
        kind = dice.choice(_ENDS) if quiet else bag.pop()
        low, high = _HOLD_S.get(kind, _USUALLY_S)
        hold_s = round(dice.uniform(low, high), 2)
        gateway = dice.choice([-1, *range(gateways)]) if lane == "network" else dice.randrange(gateways)
        side, broker, upstream = dice.choice(SIDES), dice.choice(BROKERS), dice.random() < 0.5
        found.append(
            Nemesis(
                number=0,
                lane=lane,
                at_s=round(at_s, 2),
                hold_s=hold_s,
                kind=kind,
                gateway=gateway,
                side=side,
                broker=max(broker, SMALL_DISKS[0]) if kind == "disk-full" else broker,
                upstream=upstream,
            )
        )
        at_s += hold_s + extra_s + dice.uniform(1.5, 7.0)
    return found


def with_more(plan: Plan, dice: random.Random, acts_of: Callable[[str], Iterable[Act]]) -> Plan:
    """The plan with more acts in each cycle, at random places.

    Args:
        acts_of: the acts of the cycle with this number. They are drawn one by one, each before its place.
    """
    found: list[Act] = [plan.acts[0]]
    cycle: list[Act] = []
    for act in plan.acts[1:]:
        cycle.append(act)
        if act.kind == "fail_over":  # the last one of a cycle
            for more in acts_of(act.what.rpartition("-")[2]):
                cycle.insert(dice.randint(0, len(cycle)), more)
            found += cycle
            cycle = []
    return replace(plan, acts=(*found, *cycle))


def is_quiet(at_s: float) -> bool:
    """Whether hand-overs are measured then."""
    low, high, every = QUIET_S
    return low <= at_s % every < high


def _acts(dice: random.Random, cycles: int, sets: tuple[str, ...], groups: tuple[str, ...]) -> list[Act]:
    """Each cycle takes groups and topics over and back again. The order within is random where it is free."""

    def act(kind: str, what: str) -> Act:
        pause_s = round(dice.uniform(0.5, 4.0), 2)
        twice = kind in ("promote", "failback", "reverse") and dice.random() < 0.3
        return Act(kind, what, pause_s, twice=twice, aim=_aim(dice) if kind in ("promote", "failback") else None)

    group, output = PIPELINE
    groups, others = tuple(one for one in groups if one != group), tuple(one for one in sets if one != output)
    found = [act("roll", PRODUCERS)]
    for cycle in range(cycles):
        over = [act("roll", one) for one in groups] + [act("promote", one) for one in others]
        over.append(act("carry", output))
        dice.shuffle(over)
        rolled = max(at for at, one in enumerate(over) if one.kind != "promote")
        over = [replace(one, force=one.kind == "promote" and at < rolled) for at, one in enumerate(over)]
        back = [act("reverse", one) for one in sets]
        failback = [act("failback", one) for one in others] + [act("demote", one) for one in groups]
        failback.append(act("fetch_back", output))
        dice.shuffle(failback)
        again = [act(kind, TRANSLATED) for kind in ("promote", "reverse", "failback")]
        again[0] = replace(again[0], force=True)
        found += [*over, *back, *failback, *again, act("create", f"extra-{cycle}"), act("fail_over", f"failed-{cycle}")]
    return found


def _aim(dice: random.Random) -> Aim | None:
    """Every second one."""
    return Aim(dice.choice(AIMS), round(dice.choice((0.0, dice.uniform(0.0, 0.3))), 3)) if dice.random() < 0.5 else None


def _said(act: Act) -> str:
    more = [word for word, told in (("twice", act.twice), (act.aim.kind if act.aim else "", act.aim)) if told]
    return f"{act.kind} {act.what}{f' ({chr(44).join(more)})' if more else ''}"


def _time(nemesis: Nemesis) -> float:
    return nemesis.at_s


def _where(n: Nemesis) -> str:
    if n.lane == "network":
        gateway = "all gateways" if n.gateway < 0 else f"gateway {n.gateway}"
        return f"{gateway}, {n.side}{', to the server' if n.upstream else ', to the client'}"
    if n.kind in ("gateway-kill", "gateway-pause", "gateway-restart", "clock-jump"):
        return f"gateway {n.gateway}"
    if n.kind.endswith("-lost"):  # see losses.py
        return "target" if n.gateway < 0 else f"target, and gateway {n.gateway} killed"
    return "every gateway" if n.kind == "rolling-restart" else f"{n.side} {n.broker or ''}"
