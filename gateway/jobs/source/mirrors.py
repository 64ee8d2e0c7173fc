"""What the writer must know of a mirror topic: the same as the gateway's own engine knows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gateway.mirror.offset_map.rules.codec import PartitionKey
from gateway.state.records import MirrorMode, PartitionStart


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSpec:
    """A mirror topic of a link.

    Attributes:
        producer_id: under which the target partitions are written (`domain.producer_ids.mirror_producer_id`).
        starts: of each partition.
        mode: how offsets relate (`domain.records.MirrorMode`).
        link, mirror_id, way: where the offset map has its breakpoints (`domain.map_codec.PartitionKey`).
        implied: per partition the breakpoint (source, target) that holds without any other.
        compacted: records of the source may vanish while they are copied.
        skip_deleted: go on behind what the source deleted before it was copied, and tell of it.
        equal_offsets: the link demands them: what cannot be appended at its own offset is not appended.
    """

    source_topic: str
    mirror_topic: str
    producer_id: int
    starts: tuple[PartitionStart, ...]
    mode: str = MirrorMode.PRESERVE.value
    link: str = ""
    mirror_id: int = -1
    period: int = 0
    implied: tuple[tuple[int, int], ...] = ()
    compacted: bool = False
    skip_deleted: bool = False
    equal_offsets: bool = False

    @property
    def is_translated(self) -> bool:
        """Offsets differ on the two clusters."""
        return self.mode == MirrorMode.TRANSLATE

    def map_key(self, partition: int) -> PartitionKey:
        """Of a partition, in the link's offset map."""
        return PartitionKey(self.mirror_id, self.period, partition)


def to_json(mirrors: Sequence[MirrorSpec]) -> str:
    """As an option of the writer."""
    return json.dumps([asdict(mirror) for mirror in mirrors])


def from_json(text: str) -> dict[str, MirrorSpec]:
    """From the option, by source topic. Raises ValueError when it is not what `to_json` makes."""
    try:
        return {mirror.source_topic: mirror for mirror in map(_mirror, json.loads(text))}
    except (TypeError, KeyError) as exc:
        raise ValueError(f"not a list of mirrors: {exc}") from None


def _mirror(value: Mapping[str, Any]) -> MirrorSpec:
    starts = tuple(PartitionStart(**start) for start in value["starts"])
    implied = tuple((source, target) for source, target in value.get("implied", ()))
    return MirrorSpec(**{**value, "starts": starts, "implied": implied})
