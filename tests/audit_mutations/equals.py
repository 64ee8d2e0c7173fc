"""Pairs that are equal, however much they differ in what does not count: of each the audit must say IDENTICAL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from gateway.jobs.audit.asked import Policy
from gateway.jobs.audit.asked_periods import periods
from gateway.jobs.audit.verdict import PartitionVerdict
from gateway.state.records import MirrorMode
from tests.audit_mutations import edits
from tests.audit_mutations.history import MODES, ON_TARGET, SCENES, STATES, History, header_of, history
from tests.support.jobs.audit_logs import NOW_MS, T0, Log, audit
from tests.support.mirror.source_log import empty_batch, v2_batch

Vary = Callable[[History], object]

_OLD: Final = Policy(deletes=True, compacts=False, retention_ms=NOW_MS - T0 - 1_000_000, retention_bytes=-1)
_SMALL: Final = Policy(deletes=True, compacts=False, retention_ms=-1, retention_bytes=1000, log_bytes=1200)


def plain(_: History) -> None:
    """As the mirror left them."""


def other_batches(h: History) -> None:
    """Three records a batch on the copy, where nothing is transactional."""
    log = h.copy
    whole: list[tuple[bytes, bool]] = []
    for batch, aborted in log.batches:
        header = header_of(batch)
        if header.is_control or header.is_transactional:
            whole.append((batch, aborted))
            continue
        records = edits.given_in(batch)
        whole += [(v2_batch(records[n : n + 3]), aborted) for n in range(0, len(records), 3)]
    log.batches = whole


def other_codec(h: History) -> None:
    """The copy is compressed."""
    log = h.copy
    for index, (batch, aborted) in enumerate(log.batches):
        header = header_of(batch)
        if not (header.is_control or header.is_transactional):
            log.batches[index] = (v2_batch(edits.given_in(batch), codec=1 + index % 4), aborted)


def _middle(log: Log) -> int:
    records = log.records()
    return records[len(records) // 2].offset


def target_retention(h: History) -> None:
    """The target's retention took its front."""
    h.target_policy = _OLD
    edits.trim(h.target, h.target.records()[5].offset)


def source_retention(h: History) -> None:
    """The source's retention took its front, inside of a batch."""
    h.source_policy = _OLD
    edits.trim(h.source, h.source.records()[9].offset)


def both_retentions(h: History) -> None:
    """Not by the same number of records."""
    target_retention(h)
    source_retention(h)


def retention_by_bytes(h: History) -> None:
    """The log holds what it may."""
    h.target_policy = _SMALL
    edits.trim(h.target, h.target.records()[5].offset)


def lifted_retention(h: History) -> None:
    """The copy's retention is off while it is mirrored, and did its work before."""
    lifted = {"cleanup.policy": "delete", "retention.ms": str(_OLD.retention_ms)}
    policy = Policy.of({"cleanup.policy": "delete", "retention.ms": "-1"}, lifted)
    h.source_policy = h.target_policy = policy
    edits.trim(h.copy, h.copy.records()[3].offset)


def retention_meanwhile(h: History) -> None:
    """A log start moves on while it is read."""
    h.target_policy = h.source_policy = _OLD
    h.source.starts_later = h.source.records()[4].offset
    first = h.linked and h.copy is h.target and len(periods(h.record)) == 1
    h.target.starts_later = h.target.records()[4 if first else 6].offset  # a copy's front goes with the source's


def open_end(h: History) -> None:
    """The source has an empty batch in place of a compacted one."""
    policy = Policy(deletes=False, compacts=True, retention_ms=-1, retention_bytes=-1)
    h.source_policy = policy
    end = h.source.log_end
    h.source.batches.append((empty_batch(end, end + 4), False))
    h.mirror()
    h.maps[-1].advance(h.maps[-1].end, h.source.log_end)


def tombstones_over(h: History) -> None:
    """One cleaner was here after the tombstones' time, the other was not."""
    h.clean(h.copy, h.copy.log_end, tombstones=True)


def _late_start() -> History:
    """The mirror was begun in the middle of the source's log; the target is padded up to there."""
    made = History(MirrorMode.PRESERVE, start=21)
    other = History(MirrorMode.PRESERVE)
    other.write()
    made.source, made.numbers = other.source, other.numbers
    return made.write().mirror()


def _empty_and_back() -> History:
    """Nothing was written before the topic was reversed."""
    made = History(MirrorMode.PRESERVE)
    return made.promote().write(3).reverse().mirror()


def _forgotten() -> History:
    """So many changes of sides that the first are not remembered; what is older is gone on both sides."""
    made = history(MirrorMode.TRANSLATE, "mirroring")
    for _ in range(5):
        made.promote().write(3).reverse().mirror().write(2).mirror().home().write(2).mirror()
    begin = made.record.failback.cutovers[0]
    edits.trim(made.source, begin.source[0])
    edits.trim(made.target, begin.target[0])
    return made


def _markers_last() -> History:
    """Promoted behind a transaction that left nothing but its marker."""
    made = history(MirrorMode.TRANSLATE, "mirroring")
    first = made.source.log_end
    made.source.add(
        [record._replace(offset=first) for record in made.source.records()[:1]], aborted=True, producer_id=7
    )
    made.source.add_marker(abort=True)
    return made.promote().write(2)


_VARIATIONS: Final[Mapping[str, Vary]] = {
    "as mirrored": plain,
    "other batches": other_batches,
    "other codecs": other_codec,
    "target's retention": target_retention,
    "source's retention": source_retention,
    "both retentions": both_retentions,
    "retention by bytes": retention_by_bytes,
    "retention that is lifted": lifted_retention,
    "retention while it is read": retention_meanwhile,
}


_OF_A_COPY: Final = ("target's retention", "retention by bytes", "retention that is lifted")
"""In the first period a copy has had no retention: there these are no equal pairs (`seeded_logs.py`)."""


def _varied(scene: str, vary: Vary) -> History:
    made = SCENES[scene]()
    vary(made)
    return made


def pairs() -> dict[str, Callable[[], History]]:
    """All of them, by name."""
    found: dict[str, Callable[[], History]] = {}
    for mode in MODES:
        for state in STATES:
            scene = f"{mode}, {state}"
            found |= {
                f"{scene}: {name}": partial(_varied, scene, vary)
                for name, vary in _VARIATIONS.items()
                if state != "mirroring" or name not in _OF_A_COPY
            }
    for state in STATES:
        scene = f"compacted, {state}"
        found[f"{scene}: cleaned differently"] = partial(_varied, scene, plain)
        if state not in ON_TARGET:  # there the target may have deleted keys since
            found[f"{scene}: tombstones over"] = partial(_varied, scene, tombstones_over)
        found[f"{scene}: other batches"] = partial(_varied, scene, other_codec)
    for scene in ("no link", "no link, a map"):
        found |= {f"{scene}: {name}": partial(_varied, scene, vary) for name, vary in _VARIATIONS.items()}
    found |= {
        "compacted, mirroring: an empty batch at the end": partial(_varied, "compacted, mirroring", open_end),
        "a mirror that began late": _late_start,
        "reversed before anything was written": _empty_and_back,
        "ways that nobody remembers, and their records gone": _forgotten,
        "promoted behind markers": _markers_last,
    }
    return found


def run(made: History, *, parts: int = 3) -> PartitionVerdict:
    """What the audit says."""
    return audit(made.facts(), made.logs, parts=parts)
