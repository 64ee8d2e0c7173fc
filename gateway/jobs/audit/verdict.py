"""What the audit says of one partition: the sums of its pieces, and whether they close. Pure.

What the verdicts mean is in `gateway.jobs.audit`.

An audit may not have been told of the link, whose mirror may translate offsets, or write schema ids anew.
Without a link offsets are taken to be equal on both clusters, or as a map from a file has them, and bytes to be equal.
A copy that is made otherwise has nothing wrong with it, and is DIFFERENT all the same: it cannot be told from one that
is wrong. But the logs have signs of it, and the verdict's line names them with what to give.
"""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gateway.jobs.audit.asked import AuditScope, why_not
from gateway.jobs.audit.kinds import OPEN, SHOWN_BYTES, DifferenceKind
from gateway.jobs.audit.pieces import AuditPiece
from gateway.jobs.audit.sums import Answer, Difference, SideSums, Sums
from gateway.state.producer_ids import mirror_of

_ID_BYTES: Final = 5
"""A zero, and the id of a schema: how values and keys begin that a serializer of a schema registry made."""


def remedy(sums: Sums, *, is_mapped: bool) -> str:
    """What to give to an audit without a link that found differences, and by which sign; "" where there is none.

    Args:
        is_mapped: an offset map was given, so offsets need not be equal.
    """
    if tags := _links(sums):
        return (
            f"a mirror wrote records of it ({tags}), which may translate offsets and schema ids: give --link, which "
            "compares through its maps"
        )
    if _differ_in_ids(sums.first):
        return "the first two differ in nothing but schema ids: give --link, which compares through its id map"
    left_out = _empty(sums.source) - _empty(sums.target)
    if left_out > 0 and not is_mapped:
        return (
            f"offsets were taken to be equal on both clusters, and the source has {left_out:,} more without a record: "
            "if they are translated, give --link or --map"
        )
    return ""


def _links(sums: Sums) -> str:
    """Those whose mirrors wrote to either log, by their tags: a reverse mirror writes to the source."""
    writers = [
        mirror_of(writer) for side in (sums.source, sums.target) for writer, count in side.writers.items() if count
    ]
    tags = sorted({writer.link_id for writer in writers if writer is not None})
    return f"link tag{'s' if len(tags) > 1 else ''} {', '.join(map(str, tags))}" if tags else ""


def _empty(side: SideSums) -> int:
    """Offsets of which a consumer sees nothing: a copy with translated offsets has none of them."""
    return side.markers + side.aborted + side.gaps


def _differ_in_ids(first: Difference | None) -> bool:
    """The first two records that differ do so in ids of schemas, and in nothing else that the report shows."""
    if first is None or first.source is None or first.target is None:
        return False
    here, there = _contents(first.source), _contents(first.target)
    return len(here) == len(there) and here != there and all(map(_same_but_for_id, here, there))


def _contents(record: dict[str, Any]) -> list[Any]:
    """Key, value, and names and values of headers."""
    return [record["key"], record["value"], *(part for header in record["headers"] or () for part in header)]


def _same_but_for_id(here: Any, there: Any) -> bool:
    if here == there:
        return True
    if not isinstance(here, dict) or not isinstance(there, dict) or here["bytes"] != there["bytes"]:
        return False
    a, b = b64decode(here["base64"]), b64decode(there["base64"])
    return here["bytes"] <= SHOWN_BYTES and a[:1] == b[:1] == b"\0" and a[_ID_BYTES:] == b[_ID_BYTES:]


class AuditVerdict(StrEnum):
    """See `gateway.jobs.audit`. IN_SAMPLE: identical, as far as a sample went."""

    IDENTICAL = "IDENTICAL"
    IN_SAMPLE = "IDENTICAL in the sample"
    EMPTY = "EMPTY"
    INCOMPLETE = "INCOMPLETE"
    DIFFERENT = "DIFFERENT"


EXIT_CODES: Final = {
    AuditVerdict.IDENTICAL: 0,
    AuditVerdict.DIFFERENT: 1,
    AuditVerdict.INCOMPLETE: 4,
    AuditVerdict.EMPTY: 5,
    AuditVerdict.IN_SAMPLE: 6,
}
"""Of the command. 2 is wrong usage, 3 a cluster out of reach."""

_WORST_FIRST: Final = (
    AuditVerdict.DIFFERENT,
    AuditVerdict.INCOMPLETE,
    AuditVerdict.IN_SAMPLE,
    AuditVerdict.IDENTICAL,
    AuditVerdict.EMPTY,
)

_WHY_OPEN: Final = {
    DifferenceKind.BEHIND: "record(s) are not mirrored yet",
    DifferenceKind.LEFT_BEHIND: "record(s) were left behind on the source when the topic failed over",
    DifferenceKind.NOT_IN_MAP: "record(s) are where the offset map tells nothing",
    DifferenceKind.KEY_GONE: (
        "record(s) are of keys that the target has nothing of; it may have deleted them since the cutover"
    ),
    DifferenceKind.UNDECIDED: "record(s) of the compacted topic were not looked up by their keys",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """The audit's word on one partition.

    identical_up_to: what was compared before this source offset is equal, and no piece before it gave no answer.
    reasons: why it is INCOMPLETE, or would be. sampled: not all of what was asked was to be compared.
    """

    asked: AuditScope
    sums: Sums
    verdict: AuditVerdict
    identical_up_to: int
    reasons: tuple[str, ...] = ()
    sampled: bool = False

    @property
    def sentence(self) -> str:
        """One line for people."""
        through = " through the id map" if self.asked.through_ids else ""
        if self.verdict is AuditVerdict.DIFFERENT:
            found = f"{self._first}; {self.sums.different:,} in all" + (f"; {self.remedy}" if self.remedy else "")
            causes = "".join(f"; and {problem}" for problem in self.asked.problems)
            return f"DIFFERENT{through} at offset {_first_at(self.asked, self.sums)}: {found}{causes}"
        if self.verdict is AuditVerdict.INCOMPLETE:
            equal = f"{self.sums.compared:,} records are equal{through}, none differs"
            return f"INCOMPLETE: {'; '.join(self.reasons)}; {equal}"
        if self.verdict is AuditVerdict.EMPTY:
            return "EMPTY: nothing to compare"
        if self.verdict is AuditVerdict.IN_SAMPLE:
            read, asked = self.sums.source.offsets, self.asked.source.size
            return f"IDENTICAL{through} in the sample: {self.sums.compared:,} records, {read:,} of {asked:,} offsets"
        return f"IDENTICAL{through} up to offset {self.identical_up_to}"

    @property
    def remedy(self) -> str:
        """What to give to the audit, where that may be why it found differences; "" else."""
        if self.verdict is not AuditVerdict.DIFFERENT or self.asked.is_linked:
            return ""
        return remedy(self.sums, is_mapped=self.asked.is_mapped)

    @property
    def _first(self) -> str:
        return "unknown" if self.sums.first is None else str(self.sums.first.kind)

    @property
    def closes(self) -> bool:
        """Every offset and every record that was read is in one count, and every offset asked for was read."""
        return not _open_sums(self.asked, self.sums, sampled=self.sampled)


def judge(asked: AuditScope, planned: Sequence[AuditPiece], answers: Iterable[Answer], now_ms: int) -> PartitionVerdict:
    """The verdict on a partition.

    Args:
        planned: its pieces.
        answers: what became of them.
        now_ms: when the audit began, for retention.
    """
    answers = list(answers)
    sums, reasons = gather(planned, answers)
    given = {answer.piece for answer in answers if answer.sums is not None}
    unread = [piece.source.low for piece in planned if piece.number not in given]
    read = sum(piece.source.size for piece in planned), sum(piece.target.size for piece in planned)
    sampled = read != (asked.source.size, asked.target.size)
    reasons = [*asked.problems, *reasons, *_open_sums(asked, sums, sampled=sampled), *_unexplained(asked, sums, now_ms)]
    verdict = _verdict(sums, reasons, sampled=sampled)
    return PartitionVerdict(
        asked=asked,
        sums=sums,
        verdict=verdict,
        identical_up_to=min((_up_to(asked, sums), *unread)),
        reasons=tuple(reasons),
        sampled=sampled,
    )


def gather(planned: Sequence[AuditPiece], answers: Iterable[Answer]) -> tuple[Sums, list[str]]:
    """The sums of all pieces, each of which must have one answer, and why they are not all."""
    spans = {piece.number: piece for piece in planned}
    given: Counter[int] = Counter()
    sums, problems = Sums(), []
    for answer in answers:
        given[answer.piece] += 1
        if given[answer.piece] > 1:
            continue
        if answer.sums is None:
            piece = spans.get(answer.piece)
            where = "" if piece is None else f"source offsets {piece.source.low}..{piece.source.high - 1}: "
            problems.append(f"{where}{answer.problem or 'no answer'}")
        else:
            sums.add(answer.sums)
    missing = [piece for piece in planned if not given[piece.number]]
    if missing:
        low, high = missing[0].source
        problems.append(f"{len(missing)} of {len(planned)} pieces gave no answer, the first one is {low}..{high - 1}")
    odd = sorted(number for number, times in given.items() if times > 1 or number not in spans)
    if odd:
        problems.append(f"{len(odd)} piece(s) gave more than one answer, or none that was asked for")
    return sums, problems


def _open_sums(asked: AuditScope, sums: Sums, *, sampled: bool) -> list[str]:
    """The sums that do not close."""
    found = []
    for name, side, span in (("source", sums.source, asked.source), ("target", sums.target, asked.target)):
        if side.unaccounted:
            found.append(f"{side.unaccounted} offset(s) of the {name} are in no count: it changed while it was read")
        if side.offsets != span.size and not sampled:
            found.append(f"{side.offsets} of {span.size} offsets of the {name} were read")
    source, target = sums.unaccounted
    if source or target:
        found.append(f"{source} record(s) of the source and {target} of the target are in no count")
    return found


def _unexplained(asked: AuditScope, sums: Sums, now_ms: int) -> list[str]:
    """What was not compared, and for which there is no explanation."""
    found = [f"{sums.kinds[kind]:,} {_WHY_OPEN[kind]}" for kind in DifferenceKind if kind in OPEN and sums.kinds[kind]]
    target = sums.source_only[DifferenceKind.TARGET_RETENTION], sums.newest_source, asked.target_policy
    source = sums.target_only[DifferenceKind.SOURCE_RETENTION], sums.newest_target, asked.source_policy
    for name, (count, newest, policy), start, began in (
        ("target", target, max(asked.target_log.low, sums.target_start), asked.target_began),
        ("source", source, max(asked.source_log.low, sums.source_start), asked.source_began),
    ):
        why = why_not(policy, newest, now_ms, start=start, began=began) if count else ""
        if why:
            found.append(f"{count:,} record(s) are missing below the {name}'s log start {start}, and {why}")
    if sums.unknown_ids:
        some = ", ".join(map(str, sorted(sums.unknown_ids)[:5])) + (" and others" if len(sums.unknown_ids) > 5 else "")
        found.append(f"records of the source have schema ids that are not in the link's id map: {some}")
    for name, gaps, compacted in (
        ("source", sums.source.gaps, asked.rules.source_compacted),
        ("target", sums.target.gaps, asked.rules.target_compacted),
    ):
        if gaps and not compacted:
            found.append(f"{gaps:,} offset(s) of the {name} gave no record, and it is not known to be compacted")
    return found


def _verdict(sums: Sums, reasons: Sequence[str], *, sampled: bool) -> AuditVerdict:
    if sums.different:
        return AuditVerdict.DIFFERENT
    if reasons:
        return AuditVerdict.INCOMPLETE
    if not sums.compared:
        return AuditVerdict.EMPTY
    return AuditVerdict.IN_SAMPLE if sampled else AuditVerdict.IDENTICAL


def _up_to(asked: AuditScope, sums: Sums) -> int:
    opened = asked.source.high if sums.open_at is None else sums.open_at
    return opened if sums.first is None else min(opened, _first_at(asked, sums))


def _first_at(asked: AuditScope, sums: Sums) -> int:
    """Where on the source the first difference is, or would be."""
    first = sums.first
    if first is None:
        return asked.source.low
    if first.source_offset is not None:
        return first.source_offset
    return asked.relation.cut_at_target(first.at if first.target_offset is None else first.target_offset).source


def overall(findings: Sequence[PartitionVerdict]) -> AuditVerdict:
    """The worst verdict of all partitions; one that is EMPTY does not matter beside others."""
    verdicts = {finding.verdict for finding in findings}
    return next((verdict for verdict in _WORST_FIRST if verdict in verdicts), AuditVerdict.EMPTY)
