"""Records that differ, are missing, too many, or elsewhere."""

from __future__ import annotations

from collections.abc import Callable

from tests.audit_mutations import edits
from tests.audit_mutations.history import MIRRORED, History, header_of
from tests.audit_mutations.mutation import (
    CONTENT,
    MISSING,
    NO_LINK,
    ODD,
    TRANSLATE,
    Mutation,
    Seed,
    front,
    last,
    middle,
    mirrored,
    where,
)
from tests.support.jobs.audit_logs import Log, given


def _records() -> list[Mutation]:
    def put(**changes: object) -> edits.Change:
        return lambda record: record._replace(**changes)  # type: ignore[arg-type]

    headers = (("a", b"1"), ("b", b"2"))
    found = [
        Mutation(name=f"value at the {name}", names=["value"], seed=where(place, put(value=b"other")), besides=ODD)
        for name, place in (("front", front), ("middle", middle), ("end", last))
    ]
    found += [
        Mutation(name=name, names=[kind], seed=where(middle, change, wanted))
        for name, kind, change, wanted in (
            ("key", "key", put(key=b"other"), None),
            ("key null against empty", "key", put(key=b""), put(key=None)),
            ("key empty against null", "key", put(key=None), put(key=b"")),
            ("value null against empty", "value", put(value=b""), put(value=None)),
            ("value empty against null", "value", put(value=None), put(value=b"")),
            ("last byte of a value", "value", put(value=b"x" * 99 + b"z"), put(value=b"x" * 100)),
            ("one header's value", "headers", put(headers=(("a", b"1"), ("b", b"3"))), put(headers=headers)),
            ("one header's name", "headers", put(headers=(("a", b"1"), ("c", b"2"))), put(headers=headers)),
            ("headers in another order", "headers", put(headers=headers[::-1]), put(headers=headers)),
            ("a header missing", "headers", put(headers=headers[:1]), put(headers=headers)),
            ("a header twice", "headers", put(headers=(*headers, headers[1])), put(headers=headers)),
            ("header null against empty", "headers", put(headers=(("a", b""),)), put(headers=(("a", None),))),
        )
    ]
    for name, place in (("front", front), ("middle", middle), ("end", last)):
        later = where(place, lambda record: record._replace(timestamp=record.timestamp + 1))
        found.append(Mutation(name=f"timestamp by 1 ms at the {name}", names=["timestamp"], seed=later, besides=ODD))
    return found


def _order() -> list[Mutation]:
    def records(h: History) -> None:
        edits.swap_records(h.copy, middle(h), mirrored(h)[len(mirrored(h)) // 2 + 1])

    def batches(h: History) -> None:
        edits.swap_batches(h.copy, edits.at(h.copy, mirrored(h)[8]))

    def at_ends(h: History) -> None:
        edits.swap_records(h.copy, front(h), last(h))

    return [
        Mutation(name="neighbours swapped", names=CONTENT, seed=records),
        Mutation(name="first and last swapped", names=CONTENT, seed=at_ends),
        Mutation(name="batches swapped", names=(*CONTENT, *MISSING, "record_in_gap"), seed=batches),
    ]


def _missing() -> list[Mutation]:
    found = [
        Mutation(
            name=f"record missing at the {name}",
            names=MISSING,
            seed=lambda h, place=place: edits.drop(h.copy, place(h)),  # type: ignore[misc]
        )
        for name, place in (("front", front), ("middle", middle))
    ]

    def batch(place: Callable[[History], int]) -> Seed:
        def seed(h: History) -> None:
            del h.copy.batches[edits.at(h.copy, place(h))]

        return seed

    def end(h: History) -> None:
        h.copy.end = h.copy.log_end
        edits.drop(h.copy, last(h))

    def closed(h: History) -> None:
        edits.drop_and_close(h.copy, middle(h))

    found += [
        Mutation(name="first batch missing", names=MISSING, seed=batch(front)),
        Mutation(name="batch missing in the middle", names=MISSING, seed=batch(middle), besides=NO_LINK),
        Mutation(name="last record missing", names=MISSING, seed=end),
        Mutation(name="record missing, the rest moved up", names=(*CONTENT, *MISSING), seed=closed),
    ]
    return found


def _too_many() -> list[Mutation]:
    def double_last(h: History) -> None:
        edits.double(h.copy, len(h.copy.batches) - 1)

    def double_middle(h: History) -> None:
        edits.double(h.copy, edits.at(h.copy, middle(h)))

    def one_more(h: History) -> None:
        edits.insert(h.copy, middle(h), given(0, 9999))

    def foreign(h: History) -> None:
        h.copy.add([given(h.copy.log_end, 8888)])

    def far_beyond(h: History) -> None:
        for _ in range(50):
            foreign(h)

    def in_a_gap(h: History) -> None:
        origin = h.origin
        index = next(n for n, (batch, _) in enumerate(origin.batches) if header_of(batch).is_control)
        origin.batches[index] = _record_at(header_of(origin.batches[index][0]).base_offset)

    def aborted_seen(h: History) -> None:
        index = next(n for n, (_, aborted) in enumerate(h.source.batches) if aborted)
        h.source.batches[index] = (h.source.batches[index][0], False)

    def late(h: History) -> None:
        h.source.add([given(h.source.log_end, 7777)])

    return [
        Mutation(
            name="last batch doubled",
            names=["beyond_end", "missing_on_source"],
            seed=double_last,
            states=MIRRORED,
            besides=NO_LINK,
        ),
        Mutation(name="batch doubled in the middle", names=(*CONTENT, *MISSING, "record_in_gap"), seed=double_middle),
        Mutation(name="record inserted", names=(*CONTENT, *MISSING, "record_in_gap"), seed=one_more),
        Mutation(
            name="record beyond the end", names=["beyond_end", *MISSING], seed=foreign, states=MIRRORED, besides=NO_LINK
        ),
        Mutation(name="many records beyond the end", names=["beyond_end", *MISSING], seed=far_beyond, states=MIRRORED),
        Mutation(
            name="record in a claimed hole",
            names=["record_in_gap"],
            seed=in_a_gap,
            modes=[TRANSLATE],
            states=["mirroring"],
        ),
        Mutation(name="aborted data that is seen", names=["record_in_gap"], seed=aborted_seen, modes=[TRANSLATE]),
        Mutation(
            name="record on the source after the cutover", names=["after_cutover"], seed=late, states=["promoted"]
        ),
        Mutation(
            name="record left behind at the failover",
            names=["left behind"],
            verdict="INCOMPLETE",
            seed=late,
            states=["failed over"],
        ),
    ]


def _record_at(offset: int) -> tuple[bytes, bool]:
    return Log().add([given(offset, 6666)]).batches[0]


RECORDS = (*_records(), *_order(), *_missing(), *_too_many())
"""All of these."""
