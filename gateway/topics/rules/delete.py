"""May a mirror topic be deleted, with its topic or without? Pure.

What deleting the record changes, and hence what is looked at:

* **Writes.** Clients of the gateway who write to the topic write to the source while it is mirrored there, and to the
  target afterwards. Of a topic that is STOPPED they do so already. Of another one the records of the two clusters would
  part, unnoticed: so its topic goes with it (then such a write is refused, as of a topic that nobody mirrors), or the
  operator says `force`. One whose source topic is gone has nobody left to write there.
* **Retries.** Batches from before the last cutover are told from new ones by the record alone.
* **Groups.** One that waits at its gate and reads the topic on the source would read it on the target from anywhere.
* **Records.** Those of a topic that is, or was, written on the target are nowhere else: deleting the topic loses them.
  So they are of a topic that a promoted group reads there.
* **What is under way.** A promote, a restore, a failback or a job is never cut off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.state.mirror_states import UNDER_WAY
from gateway.state.records import Deletion, MirrorRecord, MirrorState


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionFacts:
    """What is known when a deletion is asked for.

    `retried_s`: for how long a producer may still retry a batch from before the last cutover. `readers`: groups of the
    source that read the topic there and are not promoted; None: the source did not tell, `unknown` says why.
    `promoted_readers`: groups that read it on the target. `source_is_gone`: the very topic that was mirrored is not
    there any more; False when that is not known. `job`: that copies the topic now, '' when none does. `again`: why the
    link would create it again by itself, '' when it would not.
    """

    retried_s: float = 0.0
    readers: Sequence[str] | None = ()
    unknown: str = ""
    promoted_readers: Sequence[str] = ()
    source_is_gone: bool = False
    job: str = ""
    again: str = ""


BEING_PROMOTED: Final = "is being promoted; wait for its end, or call it off with `mirror promote --cancel`"
_FORCE: Final = "or use force"


def why_not_deleted(record: MirrorRecord, facts: DeletionFacts, *, topic_too: bool, force: bool) -> str:
    """Why this mirror topic cannot be deleted; '' when it can. What `force` does not help against comes first."""
    never = _under_way(record, facts) or (_topic_not_known(record) if topic_too else "")
    if never or force:
        return never
    return (
        _being_created(record)
        or _parts(record, facts, topic_too=topic_too)
        or (_loses_records(record, facts) if topic_too else "")
        or (_futile(facts) if topic_too else "")
        or _groups(facts)
        or _retries(facts)
    )


def _under_way(record: MirrorRecord, facts: DeletionFacts) -> str:
    if record.state is MirrorState.PENDING_STOPPED:
        return BEING_PROMOTED
    if record.state in UNDER_WAY:
        return f"is being reversed ({record.state}); wait for its end, or end it with `mirror failover`"
    if record.cutover.then_reverse:
        return "is about to be reversed; wait for its end"
    if facts.job:
        return f"is being caught up by job {facts.job}; end the job first"
    return ""


def _topic_not_known(record: MirrorRecord) -> str:
    if record.mirror_topic_id:
        return ""
    return "has a topic whose id is not known, and a topic is deleted by its id only; delete it on the target by hand"


def _being_created(record: MirrorRecord) -> str:
    if record.created:
        return ""
    return f"is being created, and its topic may come to be on the target yet; wait until it is, {_FORCE}"


def _parts(record: MirrorRecord, facts: DeletionFacts, *, topic_too: bool) -> str:
    """Writes would go to another cluster than they do now."""
    if record.state is MirrorState.STOPPED or topic_too or facts.source_is_gone:
        return ""
    if record.is_reverse:
        return (
            f"is {record.state} and mirrored back to the source: its copy there would stay behind; end that first with "
            f"`mirror failover`, {_FORCE}"
        )
    return (
        f"is {record.state}: what clients of the gateway write to it would go to the target from then on, and not to "
        f"the source; promote it or fail it over first, delete the topic too (--delete-topic), {_FORCE}"
    )


def _loses_records(record: MirrorRecord, facts: DeletionFacts) -> str:
    if record.state is MirrorState.STOPPED or record.is_reverse:
        return f"is written on the target, and nobody else has those records; delete it without its topic, {_FORCE}"
    if facts.promoted_readers:
        return (
            f"is read on the target by promoted groups ({_some(facts.promoted_readers)}); demote them first, {_FORCE}"
        )
    return ""


def _futile(facts: DeletionFacts) -> str:
    return f"is deleted in vain: {facts.again}, {_FORCE}" if facts.again and not facts.source_is_gone else ""


def _groups(facts: DeletionFacts) -> str:
    if facts.readers is None:
        return f"may be read on the source by groups that wait at their gates: {facts.unknown}; try again, {_FORCE}"
    if facts.readers:
        return (
            f"is read on the source by groups that are not promoted ({_some(facts.readers)}): their offsets of it "
            f"would be lost; promote them first, {_FORCE}"
        )
    return ""


def _retries(facts: DeletionFacts) -> str:
    if facts.retried_s <= 0:
        return ""
    return (
        "may still get retries of batches from before its last promote, which only its record tells from new ones; "
        f"wait {math.ceil(facts.retried_s / 60)} min, {_FORCE}"
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


def why_not_changed(begun: Deletion, asked: Deletion) -> str:
    """Why a deletion that has begun cannot become the one that is asked for; '' when it is that, or can be."""
    if begun is Deletion.TOPIC and asked is not Deletion.TOPIC:
        return "is being deleted with its topic already"
    return ""
