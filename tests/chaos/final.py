"""The end of a run: everybody comes to rest, both clusters are read whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tests.chaos.cast import Cast
from tests.chaos.clients.java import JavaMember
from tests.chaos.clients.pipeline import OUTPUT, not_once
from tests.chaos.clients.readers import Member
from tests.chaos.conductor import LINK, SOURCE, TARGET
from tests.chaos.gateways import Operator
from tests.chaos.lab import Lab
from tests.support.brokers.logs import Log
from tests.support.clients.exact import read_visible
from tests.support.waiting import wait_until

DEADLINE_S = 120.0
"""For how long nothing may move that is not at its end. A slow machine is not a stuck gateway."""
AT_MOST_S = 600.0
Logs = dict[str, dict[str, list[Log]]]
"""Side -> topic -> partitions."""


class NotSettled(Exception):
    """Something did not come to rest; one line."""


class Rest:
    """Whether all that is waited for still moves. Times are one monotonic clock in seconds."""

    def __init__(self, began: float) -> None:
        self._began = self._moved = began
        self._before: list[str] = []

    def stuck(self, waiting: list[str], now: float) -> str:
        """Who stands still, '' while they move: they said the same for DEADLINE_S, or something for AT_MOST_S."""
        if waiting != self._before:
            self._before, self._moved = waiting, now
        rest, still = now - self._began, now - self._moved
        if not waiting or (still < DEADLINE_S and rest < AT_MOST_S):
            return ""
        also = f" (and {len(waiting) - 1} more)" if len(waiting) > 1 else ""
        return f"after {rest:.0f} s of rest, {still:.0f} s still: {waiting[0][:1500]}{also}"


def settle(waiting: Callable[[], list[str]]) -> None:
    """Wait until nobody is waited for any more.

    Args:
        waiting: who is not at the end, and how far it is; what it says changes as long as something moves.

    Raises:
        NotSettled: nothing moves.
    """
    rest = Rest(time.monotonic())
    stuck = ""

    def at_end() -> bool:
        nonlocal stuck
        found = waiting()
        stuck = rest.stuck(found, time.monotonic())
        return not found or bool(stuck)

    wait_until(at_end, 2 * AT_MOST_S)
    if stuck:
        raise NotSettled(stuck)


def stop_producers(cast: Cast) -> None:
    """No more writes; all at once, since each waits for its last answers."""
    for producer in [*cast.producers, *cast.extras]:
        producer.ask_to_stop()
    for producer in [*cast.producers, *cast.extras]:
        producer.stop()


def level(operator: Operator, link: str = LINK) -> None:
    """Wait until every running mirror of a link has copied everything.

    Raises:
        NotSettled: with what `describe` shows.
    """

    def not_level() -> list[str]:
        code, answer = operator.ask("GET", f"/v3/links/{link}/mirrors")
        if code != 200:
            return [f"{code} {answer}"]
        return [f"a mirror is not level: {behind}" for m in answer["data"] if (behind := _behind(m))]

    settle(not_level)


def level_mirrors(lab: Lab) -> dict[str, dict[str, str]]:
    """Key -> from which side to which it is mirrored, of those mirrors that say that they have everything.

    Nothing is written any more; so the checker holds them to it, record by record, to the very end of the logs.
    """
    code, answer = lab.operator.ask("GET", f"/v3/links/{LINK}/mirrors")
    found = answer["data"] if code == 200 else []
    return {
        f"{mirror['mirror_topic_name']}/{index}": as_mirrored(mirror["mirror_direction"])
        for mirror in found
        if mirror["mirror_status"] != "STOPPED" and not _behind(mirror)
        for index in range(mirror["num_partitions"])
    }


def as_mirrored(direction: str) -> dict[str, str]:
    """For the history: where the records come from, and where they must be."""
    return {"from": TARGET, "to": SOURCE} if direction == "REVERSE" else {"from": SOURCE, "to": TARGET}


def _behind(mirror: Mapping[str, object]) -> str:
    if mirror["mirror_status"] == "STOPPED":
        return ""
    lags = mirror["mirror_lags"]
    assert isinstance(lags, list)
    done = mirror["mirror_status"] == "ACTIVE" and lags
    return "" if done and all(one["phase"] == "copying" and one["lag"] == 0 for one in lags) else str(mirror)


def read_everything(lab: Lab, topics: Mapping[str, int]) -> tuple[Logs, list[str]]:
    """Both clusters, as committed data; and what could not be read, which must not keep the rest from being judged."""
    logs: Logs = {SOURCE: {}, TARGET: {}}
    missing: list[str] = []
    for side, found in logs.items():
        for topic, partitions in topics.items():
            try:
                found[topic] = read_topic(lab, side, topic, partitions)
            except AssertionError as error:
                missing.append(f"{topic} on {side}: {error}")
    return logs, missing


def read_topic(lab: Lab, side: str, topic: str, partitions: int) -> list[Log]:
    """One topic of one cluster, as committed data."""
    bootstrap = lab.bootstrap_of(side)
    return [read_visible(bootstrap, topic, partition, deadline=DEADLINE_S) for partition in range(partitions)]


def drain(cast: Cast, logs: Logs) -> None:
    """Wait until every group and every reader has come to the ends of its logs.

    Raises:
        NotSettled: names who has not.
    """
    began = time.monotonic()

    def not_drained() -> list[str]:
        late = {one: found for one, *_ in cast.members.values() if (found := _late(one, logs[one.side]))}
        cast.go_on_without_hung(late, began)
        return [each for found in late.values() for each in found] + [
            f"{reader.name} has read {key} to {reader.positions.next.get(key, 0)} of {end}"
            for reader in cast.readers
            for key, end in _ends(logs[reader.side], reader.topics).items()
            if reader.positions.next.get(key, 0) < end
        ]

    settle(not_drained)


def finish_pipeline(lab: Lab, cast: Cast, topics: Mapping[str, int]) -> str:
    """Wait until it has processed everything, and stop it; what it did not do exactly once, '' for nothing.

    Raises:
        NotSettled: it has not processed everything.
    """
    one = cast.pipeline
    logs = {topic: read_topic(lab, one.side, topic, topics[topic]) for topic in one.topics}
    try:
        settle(lambda: _late(one, logs))
    finally:
        one.stop()
    return not_once(logs, read_topic(lab, one.side, OUTPUT, topics[OUTPUT]))


def _late(member: Member | JavaMember, logs: Mapping[str, list[Log]]) -> list[str]:
    """The partitions that its group has not read to their ends."""
    positions = member.positions
    return [
        f"{member.group} on {member.side} has read {key} to {positions.next.get(key, 0)} of {end}"
        for key, end in _ends(logs, member.topics).items()
        if positions.next.get(key, 0) < end
    ]


def _ends(logs: Mapping[str, list[Log]], topics: list[str]) -> dict[str, int]:
    """Behind the last record of each partition. What follows are markers, if anything."""
    return {
        f"{topic}/{number}": log[-1].offset + 1
        for topic in topics
        for number, log in enumerate(logs.get(topic, []))
        if log
    }
