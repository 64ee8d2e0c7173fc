"""Which attempt may append to which partitions: what the driver remembers of them. Pure; `now` is in seconds of a clock
that never jumps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.fleet.rules.leases import presumable_after
from gateway.kafka.topic_partition import TopicPartition

LEASE_S: Final = 10.0
"""For how long an attempt may append that does not hear the driver. Spark gives up an executor later than that."""


@dataclass(slots=True)
class _Claim:
    keys: frozenset[TopicPartition]
    until: float  # by when its lease is over, as the driver sees it


class AttemptRegistry:
    """Attempts are numbered as Spark numbers them (`taskAttemptId`): a later one has a higher number."""

    def __init__(self, lease_s: float = LEASE_S) -> None:
        self._presumable_s = presumable_after(lease_s)
        self._highest: dict[TopicPartition, int] = {}
        self._claims: dict[int, _Claim] = {}

    def claim(self, attempt: int, keys: Iterable[TopicPartition], now: float) -> bool:
        """An attempt wants to append to these partitions. False when a newer one was here for one of them."""
        wanted = frozenset(keys)
        if any(self._highest.get(key, attempt) > attempt for key in wanted):
            return False
        self._highest |= dict.fromkeys(wanted, attempt)
        self._claims[attempt] = _Claim(wanted, now)
        return True

    def holds(self, attempt: int) -> bool:
        """No newer attempt has come for any of its partitions."""
        claim = self._claims.get(attempt)
        return claim is not None and all(self._highest[key] == attempt for key in claim.keys)

    def older(self, attempt: int) -> list[int]:
        """Attempts of the same partitions that are not known to have ended."""
        keys = self._claims[attempt].keys
        return sorted(one for one, claim in self._claims.items() if one < attempt and claim.keys & keys)

    def wait_s(self, attempt: int, now: float) -> float:
        """How long until no older attempt can append any more, at most; 0 for now."""
        return max([0.0, *(self._claims[one].until - now for one in self.older(attempt))])

    def answered(self, attempt: int, now: float) -> None:
        """It is told now that it may append: the lease that it counts from its question is over by then."""
        self._claims[attempt].until = now + self._presumable_s

    def ended(self, attempt: int) -> None:
        """It appends no more, by its own word or because its process is gone."""
        self._claims.pop(attempt, None)
