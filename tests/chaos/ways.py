"""What topologies must show, judged from the logs of all clusters and the history of their producers. Pure.

Each way is the logs through which the records of a topic go, from cluster to cluster. All mirrors are in mode preserve
and level when this is asked, so each log is the beginning of the next one, offsets, timestamps and headers included.
And where ways end, all that was acknowledged is there: once, at the offset that the producer was told, in its order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.support.brokers.logs import Log, first_difference

THIRD: Final = "third"
Place = tuple[str, str]
"""(cluster, topic); all topics here have one partition."""


@dataclass(frozen=True, slots=True)
class Way:
    """`to_the_end`: its last log is where the records end up; else a copy of the one before, whole as that is."""

    places: tuple[Place, ...]
    to_the_end: bool = True


def judge_ways(ways: Sequence[Way], history: Iterable[str], logs: Mapping[Place, Log]) -> list[str]:
    """What is wrong, in words; each kind once for each way or producer.

    Args:
        history: lines of a Recorder, of the producers of these topics only.
        logs: of all places.
    """
    found = [wrong for way in ways for wrong in _parted(way, logs)]
    ends = {way.places[-1]: logs[way.places[-1]] for way in ways if way.to_the_end}
    return found + _wrong_acknowledged(list(_acknowledged(history)), ends)


def _parted(way: Way, logs: Mapping[Place, Log]) -> Iterable[str]:
    for place, following in zip(way.places, way.places[1:], strict=False):
        one, other = logs[place], logs[following]
        compared = other[: len(one)] if way.to_the_end else other
        if one != compared:
            yield f"{_named(place)} is not the beginning of {_named(following)}: {first_difference(one, compared)}"


def _acknowledged(history: Iterable[str]) -> Iterable[tuple[str, int | None, str]]:
    """(process, offset as told, value), in the order of the history."""
    for line in history:
        op = json.loads(line)
        if op["type"] == "ok" and op["f"] == "send":
            for _, _, (told, value) in op["value"]:
                yield op["process"], told, value


def _wrong_acknowledged(acknowledged: Sequence[tuple[str, int | None, str]], ends: Mapping[Place, Log]) -> list[str]:
    at: dict[str, list[tuple[Place, int]]] = {}
    order: dict[tuple[Place, str], list[int]] = {}
    for place, log in ends.items():
        for record in log:
            value = (record.value or b"").decode()
            at.setdefault(value, []).append((place, record.offset))
            process, _, number = value.rpartition(":")
            order.setdefault((place, process), []).append(int(number))
    wrong: dict[str, str] = {}
    for process, told, value in acknowledged:
        places = at.get(value, [])
        if not places:
            wrong.setdefault(f"lost {process}", f"lost: {value}, acknowledged at {told}, is in no log")
        elif told is not None and told not in [offset for _, offset in places]:
            wrong.setdefault(f"moved {process}", f"moved: {value} was acknowledged at {told}, and is at {places[0]}")
    for value, places in at.items():
        if len(places) > 1:
            wrong.setdefault(f"twice {value.rpartition(':')[0]}", f"duplicated: {value} is at {places}")
    for (place, process), numbers in order.items():
        if numbers != sorted(numbers):
            wrong.setdefault(f"order {process}", f"reordered: records of {process} in {_named(place)}")
    return list(wrong.values())


def _named(place: Place) -> str:
    return f"{place[1]} on {place[0]}"
