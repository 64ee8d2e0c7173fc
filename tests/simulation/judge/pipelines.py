"""Consume-transform-produce pipelines at rest: each record of their input stands once in their output."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from tests.simulation.clients.pipeline import not_once
from tests.simulation.judge.findings import Findings

Held = Mapping[str, Mapping[str, Collection[str]]]
"""Side -> key -> the committed records that a log holds, as often as it holds them."""
_SHOWN: Final = 3


def judge_pipeline(
    topics: tuple[str, str], sides: Mapping[str, str], held: Held, home: str, findings: Findings, now: float
) -> None:
    """Judge one.

    Args:
        topics: what it reads, and what it writes.
        sides: topic -> the side on which it is written; `home` for others.
    """
    read, written = (_records(topic, held[sides.get(topic, home)]) for topic in topics)
    wrong = not_once(read, written)
    if wrong:
        name = "lost" if "not processed" in wrong[0] else "duplicated"
        findings.add(name, f"pipeline {topics[0]} to {topics[1]}", f"{len(wrong)}: {'; '.join(wrong[:_SHOWN])}", now)


def _records(topic: str, logs: Mapping[str, Collection[str]]) -> list[str]:
    return [text for key in sorted(logs) if key.rpartition("/")[0] == topic for text in logs[key]]
