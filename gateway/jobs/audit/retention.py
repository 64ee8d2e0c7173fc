"""Whether a log's retention explains that records are gone which the other log still has. Pure.

A broker deletes whole segments: by `retention.ms` when the highest timestamp in one is older, by `retention.bytes` as
long as what is left is that much at least.

A copy has no retention while it is filled: a mirror lifts it, and its front moves with the front of where it is filled
from. So what retention took of a copy was there before its mirror period began; in the first period that is nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from gateway.kafka.rules.topic_configs import OWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What deletes records of a topic. `retention_ms`, `retention_bytes`: -1 for no limit. `log_bytes`: of a
    partition, 0 when it is not known."""

    deletes: bool
    compacts: bool
    retention_ms: int
    retention_bytes: int
    log_bytes: int = 0

    @classmethod
    def of(cls, configs: Mapping[str, str | None], lifted: Mapping[str, str] = {}) -> Self:
        """From a topic's configs.

        Args:
            lifted: those that were taken off while it is a copy, and did their work before.
        """
        known = {name: value for name, value in lifted.items() if value != OWN}
        both = {name: value or "" for name, value in configs.items()} | known
        policies = (both.get("cleanup.policy", "") + "," + (configs.get("cleanup.policy") or "")).split(",")
        return cls(
            deletes="delete" in policies,
            compacts="compact" in policies,
            retention_ms=_number(both.get("retention.ms")),
            retention_bytes=_number(both.get("retention.bytes")),
        )


def _number(text: str | None) -> int:
    return int(text) if text and text.lstrip("-").isdecimal() else -1


def why_not(policy: Policy | None, newest_ms: int, now_ms: int, *, start: int = 0, began: int | None = None) -> str:
    """Why retention does not explain that records up to this timestamp are gone; "" when it does.

    Args:
        newest_ms: the highest timestamp of the records that are gone, -1 when they have none.
        now_ms: when the audit began.
        start: where the log starts.
        began: of a copy that is filled now, where in its log that began; None of another log.
    """
    if policy is None:
        return "its configs could not be read"
    if not policy.deletes or (policy.retention_ms < 0 and policy.retention_bytes < 0):
        return "it has no retention"
    is_old = policy.retention_ms >= 0 and 0 <= newest_ms < now_ms - policy.retention_ms
    if not is_old and not (policy.log_bytes and 0 <= policy.retention_bytes <= policy.log_bytes):
        return "its retention would have kept them"
    if began is not None and start > began:
        return f"a copy has no retention while it is filled, as this one from {began} on"
    return ""
