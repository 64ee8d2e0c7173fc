"""Requests of which some entries are refused here, and the rest is the broker's to answer.

Refused entries are taken out of the request; their answers go into the broker's, in the places that they had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import Any, Final, NamedTuple

from protocol.errors import MalformedFrame

MOST_IN_PART: Final = 1_000
"""Entries of a request, or parts of an entry, of which some are refused: each is decoded, answered, and put among the
broker's answers, at up to 15 microseconds. Nobody who means well has ten times as many, and among them what he may not
name."""


class Refusal(NamedTuple):
    """The answer to what was taken out of a request.

    `part`: its list of entries, '' when the request was refused whole. `places`: where these were in the request.
    `rest`: the broker is to be asked for the rest, or nothing is left.
    """

    answer: Any
    part: str = ""
    places: Sequence[int] = ()
    rest: bool = False


def merged(answer: Any, refusal: Refusal) -> Any:
    """The broker's answer to the rest, with that to what was taken out."""
    entries = getattr(answer, refusal.part)
    for place, entry in zip(refusal.places, getattr(refusal.answer, refusal.part), strict=True):
        entries.insert(place, entry)
    return answer


def class_of(message_class: Any, part: str) -> Any:
    """The class of the entries of a message's list."""
    return message_class._struct.fields[part].array_of.data_class


def taken(entries: list[Any], chosen: Callable[[Any], bool], most: int = MOST_IN_PART) -> tuple[list[Any], list[int]]:
    """Take entries out of a request's list: those, and where they were.

    Raises:
        MalformedFrame: there are some, and the list has more than `most`.
    """
    places = [place for place, entry in enumerate(entries) if chosen(entry)]
    if places:
        bounded(entries, most)
    found = [entries[place] for place in places]
    for place in reversed(places):
        del entries[place]
    return found, places


def of_those(
    entries: list[Any],
    chosen: Callable[[Any], bool],
    part: str,
    answer: Callable[[list[Any]], Any],
    *,
    most: int = MOST_IN_PART,
) -> Refusal:
    """Of a request's list, the refusal of some entries, or of all. Where some are left, the others are taken out.

    Args:
        part: the list of entries in the answer.
        answer: makes it, of those that are refused.
        most: see `taken`.

    Raises:
        MalformedFrame: as `taken`.
    """
    if all(map(chosen, entries)):
        return Refusal(answer(entries))
    found, places = taken(entries, chosen, most)
    return Refusal(answer(found), part, places, rest=True)


def bounded(entries: Sized, most: int = MOST_IN_PART) -> None:
    """Raises MalformedFrame: these are more than are refused in part."""
    if len(entries) > most:
        raise MalformedFrame(f"{len(entries)} entries, of which some are refused: at most {most}")


def refused(kind: Any, code: int, **fields: Any) -> Any:
    """An answer with an error code, and with clients' own words for it (an empty message would be shown as one)."""
    if "error_message" in kind._struct.fields:
        fields.setdefault("error_message", None)
    return kind(error_code=code, **fields)


def parts_of(
    code: int, partitions: str = "partitions", index: str = "partition_index", error: str = "error_code"
) -> Any:
    """The refusal of a topic's entry, with this code for each of its partitions. The names are the answer's."""

    def refuse(kind: Any, topic: Any) -> Any:
        part = class_of(kind, partitions)
        name = "name" if hasattr(topic, "name") else "topic"
        given = topic.partition_indexes if hasattr(topic, "partition_indexes") else topic.partitions
        bounded(given)
        silent = {"error_message": None} if "error_message" in part._struct.fields else {}
        each = [part(**{index: _index(partition), error: code}, **silent) for partition in given]
        return kind(**{name: getattr(topic, name), partitions: each})

    return refuse


def _index(partition: Any) -> int:
    if isinstance(partition, int):
        return partition
    found: int = partition.partition_index if hasattr(partition, "partition_index") else partition.partition
    return found
