"""Logs that lost their front, their end or all, or that cannot be read; partitions, maps and tasks that are not as
they should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gateway.jobs.audit.asked import PartitionFacts, Policy
from gateway.jobs.audit.relation import Relation
from gateway.jobs.audit.sums import Answer
from gateway.mirror.offset_map.rules.offset_map import OffsetMap
from tests.audit_mutations import edits
from tests.audit_mutations.equals import lifted_retention, retention_by_bytes, target_retention
from tests.audit_mutations.history import MIRRORED, ON_TARGET, History, header_of
from tests.audit_mutations.mutation import (
    CONTENT,
    MISSING,
    ODD,
    PRESERVE,
    TRANSLATE,
    Mutation,
    middle,
)
from tests.support.control.mirror_records import changed
from tests.support.jobs.audit_logs import NOW_MS, T0


def _forwarding_gone(h: History) -> None:
    edits.trim(h.copy, middle(h))


def _emptied(h: History) -> None:
    edits.trim(h.copy, h.copy.log_end)


def _anew(h: History) -> None:
    h.copy.batches.clear()


def _half(h: History) -> None:
    edits.cut_off(h.copy, middle(h))


def _other(h: History) -> None:
    for index, (batch, aborted) in enumerate(h.copy.batches):
        if not header_of(batch).is_control:
            records = [record._replace(value=b"of another topic") for record in edits.given_in(batch)]
            edits.rebuilt(h.copy, index, records)
            h.copy.batches[index] = (h.copy.batches[index][0], aborted)


def _origin_emptied(h: History) -> None:
    h.source.batches.clear()


def _both_silent(h: History) -> None:
    h.source.silent = h.target.silent = range(middle(h), middle(h) + 9)


def _unreadable(h: History) -> None:
    h.target.unreadable = range(middle(h), middle(h) + 1)


def _lagging(h: History) -> None:
    h.write(1)


def _young(h: History) -> None:
    """Retention would have kept what is gone: it is younger than that."""
    _forwarding_gone(h)
    policy = Policy(deletes=True, compacts=False, retention_ms=NOW_MS - T0 + 1_000_000, retention_bytes=-1)
    h.source_policy = h.target_policy = policy


def _mirrored_since(h: History) -> None:
    """Old enough for the retention that is lifted, and mirrored when that was lifted."""
    lifted_retention(h)
    edits.trim(h.copy, h.copy.records()[-3].offset)


def _unknown_policy(h: History) -> None:
    _forwarding_gone(h)
    h.source_policy = h.target_policy = None


def _logs() -> list[Mutation]:
    return [
        Mutation(
            name="front missing",
            names=["it has no retention"],
            verdict="INCOMPLETE",
            seed=_forwarding_gone,
            besides=ODD,
        ),
        Mutation(
            name="front missing, retention too long", names=["would have kept"], verdict="INCOMPLETE", seed=_young
        ),
        *(
            Mutation(
                name=f"front of a first copy missing, {name}",
                names=["a copy has no retention while it is filled"],
                verdict="INCOMPLETE",
                seed=seed,
                states=["mirroring"],
            )
            for name, seed in (
                ("retention on the target", target_retention),
                ("retention by bytes", retention_by_bytes),
                ("retention that is lifted", lifted_retention),
            )
        ),
        Mutation(
            name="front of a copy missing, what was mirrored since among it",
            names=["a copy has no retention while it is filled"],
            verdict="INCOMPLETE",
            seed=_mirrored_since,
            states=["reversed", "back on the source"],
        ),
        Mutation(
            name="front missing, configs unknown",
            names=["could not be read"],
            verdict="INCOMPLETE",
            seed=_unknown_policy,
        ),
        Mutation(
            name="emptied by DeleteRecords", names=["log start"], verdict="INCOMPLETE", seed=_emptied, states=MIRRORED
        ),
        Mutation(
            name="created anew, and empty",
            names=["not mirrored yet"],
            verdict="INCOMPLETE",
            seed=_anew,
            modes=[PRESERVE],
            states=["mirroring"],
        ),
        Mutation(
            name="emptied after the cutover", names=["before the cutover", *MISSING], seed=_anew, states=ON_TARGET
        ),
        Mutation(name="cut off in the middle", names=["before the cutover", *MISSING], seed=_half, states=ON_TARGET),
        Mutation(name="another topic", names=["value"], seed=_other, besides=ODD),
        Mutation(name="another topic, in a sample", names=["value"], seed=_other, besides=ODD, fraction=0.2),
        Mutation(
            name="source created anew",
            names=["beyond_end", *MISSING],
            seed=_origin_emptied,
            modes=[PRESERVE],
            states=["mirroring", "promoted"],
        ),
        Mutation(
            name="a fetch that brings nothing, on both",
            names=["gave no record"],
            verdict="INCOMPLETE",
            seed=_both_silent,
            modes=[PRESERVE],
        ),
        Mutation(name="a part that cannot be read", names=["cannot be read"], verdict="INCOMPLETE", seed=_unreadable),
        Mutation(
            name="a copy that is behind",
            names=["not mirrored yet"],
            verdict="INCOMPLETE",
            seed=_lagging,
            states=MIRRORED,
        ),
    ]


def _partitions() -> list[Mutation]:
    def shifted(by: int) -> Callable[[PartitionFacts], PartitionFacts]:
        def change(facts: PartitionFacts) -> PartitionFacts:
            maps = [one for one in facts.maps if isinstance(one, OffsetMap)]
            bent = OffsetMap(end=maps[-1].end, read_to=maps[-1].read_to)
            for source, target in maps[-1]:
                bent.append(source + by, target)
            return replace(facts, maps=(*maps[:-1], bent))

        return change

    def other_cutover(h: History) -> None:
        h.record = changed(h.record, stopped_copy_at=(h.record.cutover.stopped_copy_at[0] - 3,))

    return [
        Mutation(
            name="partition missing on the target",
            names=["the target has no such partition"],
            verdict="INCOMPLETE",
            facts=lambda facts: replace(facts, target=None),
        ),
        Mutation(
            name="partition missing on the source",
            names=["the source has no such partition"],
            verdict="INCOMPLETE",
            facts=lambda facts: replace(facts, source=None),
        ),
        Mutation(
            name="partition that the record does not know",
            names=["no such partition"],
            verdict="INCOMPLETE",
            facts=lambda facts: replace(facts, partition=1),
        ),
        Mutation(
            name="partition that is not in the map",
            names=["not in the offset map"],
            verdict="INCOMPLETE",
            facts=lambda facts: replace(facts, given=None),
            modes=(),
            besides=["no link, a map"],
        ),
        Mutation(
            name="map that cannot be read",
            names=["cannot be read"],
            verdict="INCOMPLETE",
            facts=lambda facts: replace(facts, maps="its offset map cannot be read: nobody answers"),
            modes=[TRANSLATE],
        ),
        Mutation(
            name="target created anew with the same records",
            names=["target was created anew"],
            verdict="INCOMPLETE",
            facts=lambda facts: replace(facts, target_id="other-id"),
        ),
        Mutation(
            name="source created anew with the same records",
            names=["source was created anew"],
            verdict="INCOMPLETE",
            facts=lambda facts: replace(facts, source_id="other-id"),
        ),
        Mutation(
            name="map shifted by one",
            names=(*CONTENT, *MISSING, "record_in_gap"),
            facts=shifted(1),
            modes=[TRANSLATE],
        ),
        Mutation(
            name="wrong cutover",
            names=["after_cutover", "record_in_gap", "left behind", *MISSING],
            seed=other_cutover,
            modes=[TRANSLATE],
            states=["promoted"],
        ),
        Mutation(
            name="task without an answer",
            names=["gave no answer"],
            verdict="INCOMPLETE",
            tamper=lambda answers: answers[1:],
        ),
        Mutation(
            name="task that was retried and counted twice",
            names=["more than one answer"],
            verdict="INCOMPLETE",
            tamper=lambda answers: [*answers, answers[0]],
        ),
        Mutation(
            name="task that answers for another piece",
            names=["no answer"],
            verdict="INCOMPLETE",
            tamper=lambda answers: [replace(answers[0], piece=99), *answers[1:]],
        ),
    ]


def _given_maps() -> list[Mutation]:
    """Maps from a file, without a link."""

    def bent(how: Callable[[tuple[int, int, int]], tuple[int, int, int]]) -> Callable[[PartitionFacts], PartitionFacts]:
        def change(facts: PartitionFacts) -> PartitionFacts:
            assert isinstance(facts.given, Relation)
            return replace(facts, given=Relation(map(how, facts.given)))

        return change

    def short(facts: PartitionFacts) -> PartitionFacts:
        assert isinstance(facts.given, Relation)
        return replace(facts, given=Relation(tuple(facts.given)[:-3]))

    def late(facts: PartitionFacts) -> PartitionFacts:
        assert isinstance(facts.given, Relation)
        return replace(facts, given=Relation(tuple(facts.given)[2:]))

    where = {"modes": (), "besides": ["no link, a map"]}
    return [
        Mutation(
            name="given map shifted by one",
            names=(*CONTENT, *MISSING, "record_in_gap"),
            facts=bent(lambda one: (one[0], one[1] + 1, one[2])),
            **where,  # type: ignore[arg-type]
        ),
        Mutation(
            name="given map with short segments",
            names=["record_in_gap"],
            facts=bent(lambda one: (one[0], one[1], one[2] - 1)),
            **where,  # type: ignore[arg-type]
        ),
        Mutation(
            name="given map that ends early",
            names=["where the offset map tells nothing"],
            verdict="INCOMPLETE",
            facts=short,
            **where,  # type: ignore[arg-type]
        ),
        Mutation(
            name="given map that begins late",
            names=["where the offset map tells nothing"],
            verdict="INCOMPLETE",
            facts=late,
            **where,  # type: ignore[arg-type]
        ),
    ]


def _counts() -> list[Mutation]:
    """Tasks that count wrongly: sums that do not close."""

    def without(answers: list[Answer], name: str) -> list[Answer]:
        sums = answers[0].sums
        assert sums is not None
        if name == "compared":
            sums.compared -= 1
        else:
            setattr(sums.source, name, getattr(sums.source, name) - 1)
        return answers

    return [
        Mutation(
            name=f"one {what} too few in a task's {what}s",
            names=["in no count", "were read"],
            verdict="INCOMPLETE",
            tamper=lambda answers, field=field: without(answers, field),  # type: ignore[misc]
        )
        for what, field in (("record", "records"), ("offset", "offsets"), ("pair", "compared"))
    ]


LOGS = (*_logs(), *_partitions(), *_given_maps(), *_counts())
"""All of these."""
