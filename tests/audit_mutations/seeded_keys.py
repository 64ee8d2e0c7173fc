"""Compacted topics, whose logs were cleaned differently, and which lack more than a cleaner takes."""

from __future__ import annotations

from dataclasses import replace

from tests.audit_mutations import edits
from tests.audit_mutations.history import KEPT_FOR_EVER, History
from tests.audit_mutations.mutation import (
    MISSING,
    Mutation,
    both,
    front,
)
from tests.support.jobs.audit_logs import Log, given


def _keys() -> list[Mutation]:
    """Compacted topics: both logs were cleaned, not alike; and one lacks what no cleaner takes."""

    def only_key(log: Log) -> int:
        """The offset of a record that is the last of its key, with an older one before it."""
        records = log.records()
        latest = {record.key: record.offset for record in records}
        return next(r.offset for r in reversed(records) if latest[r.key] == r.offset and r.value is not None)

    def last_value_gone(h: History) -> None:
        offset = only_key(h.copy)
        h.clean(h.copy, h.copy.log_end)
        edits.drop(h.copy, offset)

    def older_survives(h: History) -> None:
        offset = only_key(h.copy)
        edits.drop(h.copy, offset)

    def tombstone_lost(h: History) -> None:
        """The deletion of a key did not arrive: its value is there for ever."""
        records = h.copy.records()
        gone = next(r for r in reversed(records) if all(o.key != r.key for o in records if o.offset > r.offset))
        both(h, gone.offset, lambda record: record._replace(value=None))
        edits.drop(h.copy, gone.offset)
        h.copy.batches.insert(0, _value_of(h.copy, gone.key))

    def gone_from_origin(h: History) -> None:
        edits.drop(h.origin, only_key(h.origin))

    def not_cleaned_here(h: History) -> None:
        """A record is gone that only a log cleaner might take, where there is none."""
        h.target_policy = h.source_policy = KEPT_FOR_EVER
        h.record = replace(h.record, compacted=False)
        edits.drop(h.copy, front(h))

    states = ("compacted, mirroring", "compacted, reversed", "compacted, back on the source")
    where = {"modes": (), "besides": states}
    return [
        Mutation(name="last value of a key gone", names=MISSING, seed=last_value_gone, **where),  # type: ignore[arg-type]
        Mutation(name="older value survives the last", names=MISSING, seed=older_survives, **where),  # type: ignore[arg-type]
        Mutation(name="last value gone from the origin", names=MISSING, seed=gone_from_origin, **where),  # type: ignore[arg-type]
        Mutation(name="tombstone lost", names=MISSING, seed=tombstone_lost, modes=(), besides=["compacted, mirroring"]),
        Mutation(
            name="keys that may have been deleted since the cutover",
            names=["may have deleted them since"],
            verdict="INCOMPLETE",
            seed=lambda h: h.clean(h.target, h.target.log_end, tombstones=True),  # type: ignore[arg-type]
            modes=(),
            besides=["compacted, promoted", "compacted, failed over"],
        ),
        Mutation(name="cleaned where nothing cleans", names=MISSING, seed=not_cleaned_here, **where),  # type: ignore[arg-type]
    ]


def _value_of(log: Log, key: bytes | None) -> tuple[bytes, bool]:
    """An old value of a key, at the log's first free offset."""
    taken = {record.offset for record in log.records()}
    free = next(offset for offset in range(log.log_end) if offset not in taken)
    return Log().add([given(free, 1)._replace(key=key, value=b"old")]).batches[0]


KEYS = tuple(_keys())
"""All of these."""
