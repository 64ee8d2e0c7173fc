"""Waiting for mirrors, with progress on stderr: a bar on a terminal, in a pipe a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from gateway.cli.api import REFUSED, Api, fail
from gateway.cli.output import rate
from gateway.cli.progress import ProgressView
from gateway.kafka.topic_partition import TopicPartition

_LOOK_S = 0.2
_NOT_COPYING = ("STOPPED", "FAILED", "PAUSED")
_sleep = time.sleep


def until_copied(api: Api, path: str, topics: list[str]) -> list[Any]:
    """Wait until each topic has what its source held when the wait began; returns the mirrors as they are then.

    Ends the command with 1 when one of them FAILED or is not mirrored any more.
    """
    goals: dict[TopicPartition, int] = {}
    starts: dict[TopicPartition, int] = {}
    with ProgressView("copying") as progress:
        while True:
            mirrors = _look(api, path, topics)
            lags = {(m["mirror_topic_name"], lag["partition"]): lag for m in mirrors for lag in m["mirror_lags"]}
            for key, lag in lags.items():
                if _measured(lag):
                    goals.setdefault(key, lag["source_end"])
                    starts.setdefault(key, lag["mirrored_to"])
            broken = [m for m in mirrors if m["mirror_status"] in _NOT_COPYING]
            if broken:
                name, status = broken[0]["mirror_topic_name"], broken[0]["mirror_status"]
                fail(f"mirror topic {name} is {status}: {broken[0]['error_message']}", REFUSED)
            total = sum(goals[key] - starts[key] for key in goals)
            missing = sum(max(0, goals[key] - (lags[key]["mirrored_to"] or 0)) for key in goals if key in lags)
            speed = sum(lag["bytes_per_s"] for lag in lags.values())
            progress.show(total - missing, total, rate(speed))
            complete = all(
                len(m["mirror_lags"]) == m["num_partitions"] and all(_measured(lag) for lag in m["mirror_lags"])
                for m in mirrors
            )
            if complete and not missing:
                return mirrors
            _sleep(_LOOK_S)


def until_promoted(api: Api, path: str, topics: list[str]) -> list[Any]:
    """Wait until no topic is being promoted, or on its failback, any more; returns the mirrors as they are then."""
    return until_done(api, path, topics, "promoting")


def until_reversed(api: Api, path: str, topics: list[str]) -> list[Any]:
    """As `until_done`, of a reverse: between its promote and itself a topic is STOPPED, and waits for it."""
    return _until(api, path, topics, "reversing", lambda m: m["mirror_status"].startswith("PENDING_") or m["reverses"])


def until_done(api: Api, path: str, topics: list[str], what: str) -> list[Any]:
    """Wait until no topic is in one of the PENDING states any more; returns the mirrors as they are then."""
    return _until(api, path, topics, what, lambda m: m["mirror_status"].startswith("PENDING_"))


def _until(api: Api, path: str, topics: list[str], what: str, is_pending: Callable[[Any], bool]) -> list[Any]:
    with ProgressView(what) as progress:
        while True:
            mirrors = _look(api, path, topics)
            pending = [m for m in mirrors if is_pending(m)]
            lag = sum(lag["lag"] or 0 for m in pending for lag in m["mirror_lags"])
            progress.show(len(topics) - len(pending), len(topics), _detail(pending, lag), left=lag)
            if not pending:
                return mirrors
            _sleep(_LOOK_S)


def _detail(pending: list[Any], lag: int) -> str:
    """What is left, and how fast it is copied; what somebody waits for, where that is known."""
    waits = [m["waiting_for"] for m in pending if m["waiting_for"]]
    speed = sum(each["bytes_per_s"] for m in pending for each in m["mirror_lags"])
    parts = [f"lag {lag:,}", rate(speed) if speed else "", waits[0] if waits else ""]
    return ", ".join(part for part in parts if part)


def _measured(lag: Any) -> bool:
    """The engine has seen both ends of the partition."""
    ends = lag["source_end"], lag["mirrored_to"]
    return lag["phase"] not in ("starting", "padding") and None not in ends


def _look(api: Api, path: str, topics: list[str]) -> list[Any]:
    mirrors = {mirror["mirror_topic_name"]: mirror for mirror in api.list(path)["data"]}
    missing = [topic for topic in topics if topic not in mirrors]
    if missing:
        fail(f"mirror topic {missing[0]} was deleted meanwhile", REFUSED)
    return [mirrors[topic] for topic in topics]
