"""The sizes of a run. A profile is a plain value; the loads read from it what they need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How much is done.

    Args:
        budget_s: a load begins no further round when that would take it beyond its share of this (without the
            micro-benchmarks, which follow).
        rounds: most rounds of the loads that the bench is known by; the others have three at most.
        long_lived: whether brokers run as Kafka's start script runs them, and not small and soon up.
        warm_up: whether each contestant has an uncounted turn of a tenth of the size first.
        produce_mb, produce_big_mb, fetch_mb, mirror_mb: megabytes of record values per turn.
        rest_s, small_s, busy_s, gate_s: seconds per turn.
        mm2_tuned: whether a tuned MirrorMaker 2 takes part beside the default one.
        promotes: topics promoted one after the other, each at `promote_mb_s`.
        micro: options of pyperf.
    """

    name: str
    budget_s: float
    rounds: int
    long_lived: bool = True
    warm_up: bool = True
    rest_s: float
    produce_mb: int
    produce_big_mb: int
    fetch_mb: int
    mirror_mb: int
    mm2_tuned: bool = False
    together_mb: int
    small_s: float
    small_rate: int = 3000
    idle_connections: int
    busy_connections: int
    busy_s: float
    busy_rate: int = 2000
    metadata_partitions: int
    metadata_requests: int
    promotes: int
    promote_mb_s: float = 20.0
    gate_members: int
    gate_s: float
    micro: tuple[str, ...]


FULL: Final = Profile(
    name="full",
    budget_s=780.0,
    rounds=5,
    rest_s=5.0,
    produce_mb=300,
    produce_big_mb=500,
    fetch_mb=600,
    mirror_mb=200,
    mm2_tuned=True,
    together_mb=150,
    small_s=8.0,
    idle_connections=1000,
    busy_connections=200,
    busy_s=6.0,
    metadata_partitions=10_000,
    metadata_requests=200,
    promotes=20,
    gate_members=500,
    gate_s=8.0,
    micro=("--processes=4", "--values=3", "--warmups=1", "--min-time=0.05"),
)

QUICK: Final = replace(
    FULL,
    name="quick",
    budget_s=150.0,
    rounds=2,
    warm_up=False,
    rest_s=1.0,
    produce_mb=100,
    produce_big_mb=200,
    fetch_mb=200,
    mirror_mb=80,
    mm2_tuned=False,
    together_mb=50,
    small_s=3.0,
    busy_s=3.0,
    metadata_partitions=2_000,
    metadata_requests=100,
    promotes=5,
    gate_s=3.0,
    micro=("--processes=2", "--values=2", "--warmups=1", "--min-time=0.02"),
)

SMOKE: Final = replace(
    QUICK,
    name="smoke",
    budget_s=30.0,
    rounds=1,
    long_lived=False,
    rest_s=0.3,
    produce_mb=2,
    produce_big_mb=4,
    fetch_mb=2,
    mirror_mb=2,
    together_mb=2,
    small_s=0.3,
    idle_connections=20,
    busy_connections=5,
    busy_s=0.5,
    metadata_partitions=50,
    metadata_requests=10,
    promotes=1,
    promote_mb_s=1.0,
    gate_members=10,
    gate_s=0.5,
    micro=("--processes=1", "--values=1", "--warmups=0", "--min-time=0.001"),
)

PROFILES: Final = {profile.name: profile for profile in (FULL, QUICK, SMOKE)}
