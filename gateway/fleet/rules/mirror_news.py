"""What a mirror has told that belongs into its topic's record, and whether it stands there by now. Pure.

Whoever leads hears of it in memory alone, and may be gone before it is written down. So it is told until the record
says it, to every leader. It counts for the very mirror that it was told of (`tag_of`): another one of the same name,
or of the other direction, has not failed because this one has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gateway.state.mirror_states import MirrorOperation, allows, tag_of
from gateway.state.records import MirrorMode, MirrorRecord

FAILED: Final = "partition_failed"
LOST: Final = "records_lost"
READABLE: Final = "topic_readable"
TRANSLATED: Final = "topic_translated"


class MirrorNews(NamedTuple):
    """One thing that was told. `values`: what it says beside the names. `tag`: of the mirror; '' where not known."""

    what: str
    link: str
    topic: str
    values: tuple[Any, ...]
    tag: str = ""

    def to_wire(self) -> dict[str, Any]:
        """For the leader."""
        return {"event": [self.what, self.link, self.topic, *self.values], "tag": self.tag}

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> MirrorNews:
        """Raises KeyError, TypeError or ValueError when it is none. A gateway of an older version names no mirror."""
        what, link, topic, *values = body["event"]
        return cls(str(what), str(link), str(topic), tuple(values), str(body.get("tag", "")))

    def concerns(self, record: MirrorRecord | None) -> bool:
        """It was told of the mirror that this record is of, as far as anybody knows."""
        return record is None or not self.tag or tag_of(record) == self.tag

    def is_written(self, record: MirrorRecord | None) -> bool:
        """The record says it, or it can never be said of it any more."""
        if record is None or not self.concerns(record):
            return True
        match self.what, self.values:
            case "partition_failed", _:
                return not allows(MirrorOperation.FAIL, record.state)
            case "records_lost", (int() as partition, _, int() as following):
                known = partition < len(record.lost) and record.lost[partition].up_to >= following
                return known or partition >= len(record.starts)
            case "topic_readable", _:
                return record.readable
            case "topic_translated", _:
                return record.mode is MirrorMode.TRANSLATE
            case _:
                return True
