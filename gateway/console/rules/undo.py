"""Whether promotes can be taken back, until when, and how much the source does not have yet: cells of rows. Pure.

Of a topic it says what `mirror describe` says, of an application what `migration status` says: a mirror back that
somebody has begun by hand can go home as well, and has no end.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.console.rules.sections import Row
from gateway.state.records import MirrorRecord, MirrorState, Undo
from gateway.telemetry.numbers import MirrorNumbers

OPEN = Undo.OPEN.value
ENDED = "ended"


def of_topic(one: MirrorNumbers, record: MirrorRecord | None) -> Row:
    """`undo`: `open`; `over`: its time is; `ended`: by somebody, before that; `refused`: it could not begin; '': there
    is none. `undo_until_ms`: until when it is kept, or was to be, wall clock; 0: not at all, or without an end.
    `at_risk`: records that the source does not have yet; null: not known, or not mirrored back."""
    undo = Undo.NONE if record is None else record.cutover.undo
    ended = undo is Undo.OPEN and one.state is MirrorState.STOPPED
    return {
        "undo": ENDED if ended else undo.value,
        "undo_until_ms": 0 if record is None else record.cutover.undo_until_ms,
        "at_risk": one.at_risk,
    }


def of_application(topics: Iterable[Row]) -> Row:
    """`undo_open`: topics that can go home; `undo_over`: whose time is over; `undo_refused`: whose mirror back could
    not begin, or has FAILED. `undo_until_ms`: until when, the first of them; 0: without an end. `at_risk`: of those
    that can go home; null: not known of one of them. `late`: records that came to the source of those beside the
    gateway; null: not measured of one of them."""
    there = [row for row in topics if row["written_on"] == "target"]
    back = [row for row in there if row["direction"] == "REVERSE" and row["undo"] in (OPEN, Undo.NONE.value)]
    opened = [row for row in back if row["state"] != MirrorState.FAILED.value]
    ends = [until for row in opened if isinstance(until := row["undo_until_ms"], int) and until]
    risks = [risk for row in opened if isinstance(risk := row["at_risk"], int)]
    late = [count for row in opened if isinstance(count := row["after_cutover"], int)]
    return {
        "undo_open": len(opened),
        "undo_over": sum(row["undo"] == Undo.OVER.value for row in there),
        "undo_refused": sum(row["undo"] == Undo.REFUSED.value for row in there) + len(back) - len(opened),
        "undo_until_ms": min(ends, default=0),
        "at_risk": sum(risks) if len(risks) == len(opened) else None,
        "late": sum(late) if len(late) == len(opened) else None,
    }
