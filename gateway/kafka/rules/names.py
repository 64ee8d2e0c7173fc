"""Names of topics, groups and links: what is legal, what is internal; and topic ids as Kafka prints them (KIP-516).

An id is 16 bytes, printed as URL-safe base64 without padding.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

# Kafka's rule for topics (org.apache.kafka.common.internals.Topic); links follow it too, so that they fit in
# a path and in a state topic key.
_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def bad_name(name: str) -> str:
    """Why a topic or link cannot have this name; '' when it can."""
    if not name or name in (".", ".."):
        return f"{name!r} is not a name"
    if len(name) > 249:
        return f"{name[:20]!r}... is longer than 249 characters"
    if not _LEGAL.fullmatch(name):
        return f"{name!r} may hold only letters, digits, '.', '_' and '-'"
    return ""


def is_internal(topic: str) -> bool:
    """True for topics that belong to a cluster, a Confluent component or lockgate itself."""
    return topic.startswith(("__", "_confluent"))


class Beginnings(Generic[T]):
    """What names begin with -> a value. A name is looked up in a thousand beginnings as fast as in a few: there are as
    many questions as the beginnings have lengths."""

    def __init__(self, values: Iterable[tuple[str, T]] = ()) -> None:
        """Of beginnings that are the same the first one counts."""
        self._values: dict[str, tuple[int, T]] = {}
        for at, (beginning, value) in enumerate(values):
            self._values.setdefault(beginning, (at, value))
        self._lengths = sorted({len(beginning) for beginning in self._values})

    def first_of(self, name: str) -> tuple[int, T] | None:
        """The place and the value of the first one in order that the name begins with; None when there is none."""
        return min(self.all_of(name), key=lambda found: found[0], default=None)

    def all_of(self, name: str) -> Iterator[tuple[int, T]]:
        """As `first_of`, all of them; the shortest first."""
        for length in self._lengths:
            if length > len(name):
                return
            if (found := self._values.get(name[:length])) is not None:
                yield found


def java_hash(text: str) -> int:
    """Java's `String.hashCode`, over UTF-16: the partition of `__consumer_offsets` that has a group comes of it."""
    data, value = text.encode("utf-16-be", "surrogatepass"), 0
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


def some_of(names: Iterable[str], most: int = 3) -> str:
    """The first names, and how many more there are: for a log line that may be about thousands."""
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def topic_id_text(topic_id: bytes) -> str:
    """The printed form; '' for no id (empty or all zeros)."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=") if any(topic_id) else ""


def topic_id_bytes(text: str) -> bytes:
    """The 16 bytes of a printed id; b'' for ''. Raises ValueError when it is not one."""
    if not text:
        return b""
    topic_id = urlsafe_b64decode(text + "==")
    if len(topic_id) != 16:
        raise ValueError(f"{text!r} is not a topic id")
    return topic_id
