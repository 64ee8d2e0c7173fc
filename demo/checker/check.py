"""Puts the single judgements together."""

from __future__ import annotations

from demo.checker.groups import find_reads
from demo.checker.logs import (
    Finding,
    TopicLog,
    TransactionCoordinators,
    find_lost,
    find_reordered,
    find_unequal,
    locate,
)
from demo.checker.timing import Window, group_switch_ms, promote_gap_ms, silent_since
from demo.checker.verdict import GroupVerdict, Verdict
from demo.history import History


def check(
    history: History,
    source: TopicLog,
    target: TopicLog,
    *,
    live: tuple[str, ...] = (),
    groups: tuple[str, ...] = (),
    promote: Window | None = None,
    killed_at_ms: int | None = None,
) -> Verdict:
    """Judge a run.

    Args:
        history: What the clients logged.
        source: The source's log, read after the promote. Empty for a run without a migration.
        target: The target's log, read at the end.
        live: The producers that wrote through the promote; they are the ones that are timed.
        groups: The groups that had to read everything, also when they logged nothing.
        promote: From the operator's command to its end; None for a run without a promote.
        killed_at_ms: When the source was killed; every live producer must be acknowledged after it.
    """
    places, duplicated = locate(target)
    acknowledged, lost, misplaced = find_lost(history.acks, places)
    reordered = find_reordered(source, target)
    unequal = find_unequal(source, target)
    verdicts, cases = _judge_groups(history, places, groups, migrated=promote is not None)
    found = sum(len(of_producer) for of_producer in places.values())
    killed = killed_at_ms if killed_at_ms is not None else -1
    return Verdict(
        acknowledged=acknowledged,
        found=found,
        unacknowledged=found - (acknowledged - lost.count),
        lost=lost.count,
        duplicated=duplicated.count,
        reordered=reordered.count,
        offsets_equal=not unequal.count and not misplaced.count and (promote is None or len(source) > 0),
        promote_gaps_ms={p: promote_gap_ms(history.acks.get(p, []), promote) for p in live} if promote else {},
        groups=verdicts,
        silent=tuple(p for p in live if silent_since(history.acks.get(p, []), killed)),
        errors=tuple(f"{error.client}: {error.message}" for error in history.errors),
        examples=_examples(lost, duplicated, reordered, unequal, misplaced, *cases),
    )


def _judge_groups(
    history: History, places: TransactionCoordinators, groups: tuple[str, ...], *, migrated: bool
) -> tuple[dict[str, GroupVerdict], list[Finding]]:
    verdicts: dict[str, GroupVerdict] = {}
    cases: list[Finding] = []
    for group in sorted({*groups, *history.reads}):
        batches = history.reads.get(group, [])
        read, missed, reread, strange = find_reads(group, batches, places)
        switch = group_switch_ms(history.departures.get(group, []), batches) if migrated else 0
        verdicts[group] = GroupVerdict(
            read=read, missed=missed.count, reread=reread.count, strange=strange.count, switch_ms=switch
        )
        cases += [missed, reread, strange]
    return verdicts, cases


def _examples(*findings: Finding) -> tuple[str, ...]:
    return tuple(example for finding in findings for example in finding.examples)
