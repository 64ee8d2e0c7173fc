"""The end of a run: everybody comes to rest, both clusters are read whole."""

from __future__ import annotations

import time
from collections.abc import Mapping

from tests.chaos.cast import Cast
from tests.chaos.conductor import LINK, SOURCE, TARGET
from tests.chaos.java import JavaMember
from tests.chaos.lab import Lab
from tests.chaos.pipeline import OUTPUT, not_once
from tests.chaos.readers import Member
from tests.support.exact import read_visible
from tests.support.logs import Log
from tests.support.waiting import wait_until

DEADLINE_S = 120.0
Logs = dict[str, dict[str, list[Log]]]
"""Side -> topic -> partitions."""


class NotSettled(Exception):
    """Something did not come to rest; one line."""


def stop_producers(cast: Cast) -> None:
    """No more writes; all at once, since each waits for its last answers."""
    for producer in [*cast.producers, *cast.extras]:
        producer.ask_to_stop()
    for producer in [*cast.producers, *cast.extras]:
        producer.stop()


def level(lab: Lab) -> None:
    """Wait until every running mirror has copied everything.

    Raises:
        NotSettled: with what `describe` shows.
    """
    shown: list[str] = []

    def is_level() -> bool:
        code, answer = lab.operator.ask("GET", f"/v3/links/{LINK}/mirrors")
        if code != 200:
            shown[:] = [f"{code} {answer}"]
            return False
        shown[:] = [_behind(m) for m in answer["data"] if _behind(m)]
        return not shown

    try:
        wait_until(is_level, DEADLINE_S)
    except AssertionError:
        raise NotSettled(f"after {DEADLINE_S:g} s of rest a mirror is not level: {shown[0][:1500]}") from None


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


def read_everything(lab: Lab, topics: Mapping[str, int]) -> Logs:
    """Both clusters, as committed data."""
    return {
        side: {topic: read_topic(lab, side, topic, partitions) for topic, partitions in topics.items()}
        for side in (SOURCE, TARGET)
    }


def read_topic(lab: Lab, side: str, topic: str, partitions: int) -> list[Log]:
    """One topic of one cluster, as committed data."""
    bootstrap = lab.side(side).bootstrap
    return [read_visible(bootstrap, topic, partition, deadline=DEADLINE_S) for partition in range(partitions)]


def drain(cast: Cast, logs: Logs) -> None:
    """Wait until every group and every reader has come to the ends of its logs.

    Raises:
        NotSettled: names who has not.
    """
    waiting: list[str] = []
    began = time.monotonic()

    def is_drained() -> bool:
        late = {one: found for one, *_ in cast.members.values() if (found := _late(one, logs[one.side]))}
        waiting[:] = [each for found in late.values() for each in found]
        cast.go_on_without_hung(late, began)
        waiting.extend(
            f"{reader.name} has read {key} to {reader.positions.next.get(key, 0)} of {end}"
            for reader in cast.readers
            for key, end in _ends(logs[reader.side], reader.topics).items()
            if reader.positions.next.get(key, 0) < end
        )
        return not waiting

    try:
        wait_until(is_drained, DEADLINE_S)
    except AssertionError:
        raise NotSettled(f"after {DEADLINE_S:g} s of rest: {waiting[0]} (and {len(waiting) - 1} more)") from None


def finish_pipeline(lab: Lab, cast: Cast, topics: Mapping[str, int]) -> str:
    """Wait until it has processed everything, and stop it; what it did not do exactly once, '' for nothing.

    Raises:
        NotSettled: it has not processed everything.
    """
    one = cast.pipeline
    logs = {topic: read_topic(lab, one.side, topic, topics[topic]) for topic in one.topics}
    try:
        wait_until(lambda: not _late(one, logs), DEADLINE_S)
    except AssertionError:
        raise NotSettled(f"after {DEADLINE_S:g} s of rest: {_late(one, logs)[0]}") from None
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
