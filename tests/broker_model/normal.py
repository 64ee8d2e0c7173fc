"""Answers made comparable: ids that a cluster invents become their order of appearance, clocks become distances.

What is left out: throttle times, addresses, the cluster's id, directories and disk sizes, words of error messages
(only whether there are any). Lists are sorted, but for batches. Record sets are read batch by batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from protocol.batch.header import BatchHeader, OldFormat, iter_batches
from protocol.batch.record_reader import read_records

_DROPPED: Final = frozenset(
    {
        "throttle_time_ms", "host", "port", "cluster_id", "log_dir", "total_bytes", "usable_bytes", "rack",
        "client_host",
        "node_endpoints", "finalized_features_epoch", "documentation", "controller_id", "correlation_id", "is_cordoned",
        "current_leader", "zk_migration_ready",
    }
)  # fmt: skip
_IDS: Final = {"producer_id": "producer", "topic_id": "topic", "session_id": "session"}
_MEMBERS: Final = frozenset({"member_id", "leader"})
_CLOCKS: Final = frozenset({"timestamp", "log_append_time_ms", "transaction_start_time_ms", "last_timestamp"})
_WORDS: Final = frozenset({"error_message", "batch_index_error_message"})
_NO_TIME: Final = -1


class Normal:
    """What one side's answers are compared as.

    Args:
        prefix: names of this sequence begin with it; it is cut off.
        base_ms: the side's clock when the sequence began.
    """

    def __init__(self, prefix: str, base_ms: int) -> None:
        self._prefix = prefix
        self._base_ms = base_ms
        self._seen: dict[str, dict[Any, str]] = {}

    def of(self, answer: Any) -> Any:
        """The comparable form: dicts, lists, strings and numbers."""
        if answer is None or isinstance(answer, str):
            return answer
        return self._value("", answer)

    def id(self, kind: str, value: Any) -> str:
        """The order of appearance of an id."""
        known = self._seen.setdefault(kind, {})
        return known.setdefault(value, f"{kind}#{len(known)}")

    def name(self, kind: str, value: Any, name: str) -> None:
        """Call an id by a name of the test's own, where its order of appearance is left to chance."""
        self._seen.setdefault(kind, {}).setdefault(value, name)

    def _value(self, name: str, value: Any) -> Any:
        named: Callable[[Any], Any] | None = None
        if name in _IDS:
            named = self._invented(_IDS[name])
        elif name in _MEMBERS:
            named = self._member
        elif name in _CLOCKS:
            named = self._clock
        elif name in _WORDS:
            return value is not None and value != ""
        elif name == "records":
            named = self._records
        if named is not None:
            return named(value)
        return self._plain(value)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return sorted((self._plain(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value).hex()
        if isinstance(value, str):
            return value.replace(self._prefix, "")
        if isinstance(value, UUID):
            return self.id("topic", value)
        if hasattr(value, "fields"):
            return {
                field.name: self._value(field.name, getattr(value, field.name))
                for field in value.fields.values()
                if field.name not in _DROPPED
            }
        return value

    def _invented(self, kind: str) -> Callable[[Any], Any]:
        def named(value: Any) -> Any:
            if value is None or value in (-1, 0) or (isinstance(value, UUID) and value.int == 0):
                return "none" if value != -1 else -1
            return self.id(kind, value)

        return named

    def _member(self, value: Any) -> Any:
        return value if not value or isinstance(value, int) else self.id("member", value)

    def _clock(self, value: int) -> Any:
        """Times that the sequence made are exact; those of the brokers' clocks are not."""
        if value in (_NO_TIME, 0, None):
            return value
        distance = value - self._base_ms
        return distance if distance < 0 else "later"

    def _records(self, value: Any) -> Any:
        if value is None:
            return None
        data = memoryview(bytes(value))
        try:
            return [self._batch(header, batch) for header, batch in iter_batches(data)]
        except OldFormat:
            return bytes(data).hex()

    def _batch(self, header: BatchHeader, batch: memoryview) -> Any:
        records = [(record.offset, (record.key or b"").hex()) for record in read_records(header, batch)]
        control = header.is_control
        return {
            "offsets": (header.base_offset, header.last_offset),
            "producer": self.id("producer", header.producer_id) if header.producer_id >= 0 else -1,
            "epoch": header.producer_epoch,
            "sequence": header.base_sequence,
            "leader_epoch": header.partition_leader_epoch,
            "transactional": header.is_transactional,
            "control": control,
            "records": records,
            "at": None if control else self._clock(header.max_timestamp),
        }


def unlike(real: Any, model: Any, path: str = "") -> list[str]:
    """Where two answers differ: a line for each place."""
    if isinstance(real, dict) and isinstance(model, dict) and real.keys() == model.keys():
        return [line for name in real for line in unlike(real[name], model[name], f"{path}.{name}")]
    both_lists = isinstance(real, (list, tuple)) and isinstance(model, (list, tuple))
    if both_lists and len(real) == len(model):
        pairs = enumerate(zip(real, model, strict=True))
        return [line for at, (left, right) in pairs for line in unlike(left, right, f"{path}[{at}]")]
    if both_lists and path:
        missing = [each for each in real if each not in model]
        extra = [each for each in model if each not in real]
        return [f"{path}: only real has {missing}, only the model has {extra}"]
    return [] if real == model else [f"{path}: real {real!r}, model {model!r}"]
