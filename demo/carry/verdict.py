"""What the demo must show, judged from both clusters, both registries, and what the clients logged.

- lost: acknowledged and not on the target; or on the target, and never read by the consumer group.
- duplicated: twice on the target; or read twice by the consumer group.
- acls_equal: both clusters tell the same ACLs, but for the gateway's own principal's, and lockgate sees no difference.
- schemas_equal: both registries have the same subjects, with the same versions, schemas, soft deletes and level.
- ids_fixed: with the same ids, which mean the same on both sides; and a schema that is registered on the target
  afterwards gets an id that the source has not given.
- share_group: it is promoted; it has read every record at least once, on both sides; and of what it had read on the
  source no more came again than the gateway had announced. A share group is at-least-once, so coming again is no fault.
- client_errors: what a client's application was shown.

What has no place in the last line makes a FAIL all the same: an order or a log that differs; users or quotas that did
not come over; a quota that slows nobody down on the target; a client that the target did not know by its own name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from demo.carry.look import Held
from demo.carry.settings import GROUP, SHARE_GROUP
from demo.checker.groups import find_reads
from demo.checker.logs import Finding, TransactionCoordinators, find_lost, find_reordered, find_unequal, locate
from demo.history import History, Side
from demo.records import RecordId


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What beside both sides the judge is told.

    Attributes:
        differences: what lockgate itself says of ACLs that are not the same, a line each.
        share_promoted: the share group is PROMOTED. share_again: how many of its records were announced to come again.
        throttled: the client with the small quota was slowed down at the gateway after the promote.
        nameless: what no client did on the target under its own name, though it should have, a line each.
        next_id: of the schema that was registered on the target afterwards.
        offences: what the target's registry was asked that no careful client asks.
    """

    differences: tuple[str, ...]
    share_promoted: bool
    share_again: int
    throttled: bool
    nameless: tuple[str, ...]
    next_id: int
    offences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryVerdict:
    """`unequal`: differences of order and content. `left_behind`: users, quotas and names that did not come along.
    `share_again`: records that the share group had read on the source and read again. `examples`: the first few cases
    of each fault in words."""

    acknowledged: int
    lost: int
    duplicated: int
    unequal: int
    acls_equal: bool
    schemas_equal: bool
    ids_fixed: bool
    share_group: bool
    share_again: int
    left_behind: int
    errors: tuple[str, ...]
    examples: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True when nothing is wrong, and something was done."""
        faults = self.lost + self.duplicated + self.unequal + self.left_behind + len(self.errors)
        carried = self.acls_equal and self.schemas_equal and self.ids_fixed and self.share_group
        return not faults and carried and self.acknowledged > 0

    @property
    def counts(self) -> str:
        """For the last line."""
        told = {
            "acls_equal": self.acls_equal,
            "schemas_equal": self.schemas_equal,
            "ids_fixed": self.ids_fixed,
            "share_group": self.share_group,
        }
        shown = " ".join(f"{name}={str(value).lower()}" for name, value in told.items())
        return f"lost={self.lost} duplicated={self.duplicated} {shown} client_errors={len(self.errors)}"


def judge_all(history: History, source: Held, target: Held, told: Told) -> CarryVerdict:
    """Judge a run. `source`: its log as it was after the promote; all else as it is at the end."""
    places, twice = locate(target.log)
    acknowledged, lost, misplaced = find_lost(history.acks, places)
    _, missed, reread, strange = find_reads(GROUP, history.reads.get(GROUP, []), places)
    unequal = [misplaced, strange, find_reordered(source.log, target.log), find_unequal(source.log, target.log)]
    acls = _acls(source, target, told)
    schemas, ids = _schemas(source, target, told), _ids(source, target, told)
    again, shared = _share_group(history, places, told)
    left = _left_behind(source, target, told)
    findings = (lost, missed, twice, reread, *unequal, acls, schemas, ids, shared, left)
    return CarryVerdict(
        acknowledged=acknowledged,
        lost=lost.count + missed.count,
        duplicated=twice.count + reread.count,
        unequal=sum(finding.count for finding in unequal),
        acls_equal=not acls.count,
        schemas_equal=not schemas.count,
        ids_fixed=not ids.count,
        share_group=not shared.count,
        share_again=again,
        left_behind=left.count,
        errors=tuple(f"{error.client}: {error.message}" for error in history.errors),
        examples=tuple(example for finding in findings for example in finding.examples),
    )


def _acls(source: Held, target: Held, told: Told) -> Finding:
    found = _of(f"lockgate sees a difference: {line}" for line in told.differences)
    if not source.acls:
        found.add("the source has no ACLs: nothing was shown")
    _differences(found, "ACL", source.acls, target.acls)
    return found


def _schemas(source: Held, target: Held, told: Told) -> Finding:
    found = _of(f"asked of the target's registry: {line}" for line in told.offences)
    if not source.subjects:
        found.add("the source's registry is empty: nothing was shown")
    ours, theirs = (
        {
            f"{subject} {number}: {json.dumps(version._replace(id=0), sort_keys=True)}"
            for subject, versions in side.subjects.items()
            for number, version in versions.items()
        }
        for side in (source, target)
    )
    _differences(found, "schema", ours, theirs)
    if source.level != target.level:
        found.add(f"level: {source.level} on the source, {target.level} on the target")
    return found


def _ids(source: Held, target: Held, told: Told) -> Finding:
    found = Finding()
    ours, theirs = (
        {
            f"{subject} {number} has id {version.id}"
            for subject, versions in side.subjects.items()
            for number, version in versions.items()
        }
        for side in (source, target)
    )
    _differences(found, "id", ours, theirs)
    if not source.ids:
        found.add("no record of the source names a schema: nothing was shown")
    for schema_id, schema in source.ids.items():
        if target.ids.get(schema_id) != schema:
            found.add(f"id {schema_id} means {schema} on the source, {target.ids.get(schema_id)} on the target")
    given = {version.id for versions in source.subjects.values() for version in versions.values()}
    if told.next_id in given:
        found.add(f"the target has given id {told.next_id} once more")
    return found


def _share_group(history: History, places: TransactionCoordinators, told: Told) -> tuple[int, Finding]:
    """How many records came again behind the move, and what is wrong."""
    batches = history.reads.get(SHARE_GROUP, [])
    _, missed, _, strange = find_reads(SHARE_GROUP, batches, places)
    found = _of([*missed.examples, *strange.examples])
    read: dict[Side, set[RecordId]] = {side: set() for side in Side}
    for batch in batches:
        read[batch.side].update(batch.ids)
    again = len(read[Side.SOURCE] & read[Side.TARGET])
    for side in Side:
        if not read[side]:
            found.add(f"{SHARE_GROUP} has read nothing on the {side}")
    if again > told.share_again:
        found.add(f"{again} records came to {SHARE_GROUP} again, {told.share_again} were announced")
    if not told.share_promoted:
        found.add(f"{SHARE_GROUP} is not PROMOTED")
    return again, found


def _left_behind(source: Held, target: Held, told: Told) -> Finding:
    found = _of(f"not under its own name: {line}" for line in told.nameless)
    for user in sorted(source.users - target.users):
        found.add(f"user {user} is not on the target")
    _differences(found, "quota", _lines(source.quotas), _lines(target.quotas))
    if not told.throttled:
        found.add("no quota slowed its client down on the target")
    return found


def _lines(quotas: Mapping[str, float]) -> set[str]:
    return {f"{key}={value:g}" for key, value in quotas.items()}


def _differences(found: Finding, what: str, source: Iterable[str], target: Iterable[str]) -> None:
    ours, theirs = set(source), set(target)
    for line in sorted(ours - theirs):
        found.add(f"{what} of the source alone: {line}")
    for line in sorted(theirs - ours):
        found.add(f"{what} of the target alone: {line}")


def _of(lines: Iterable[str]) -> Finding:
    found = Finding()
    for line in lines:
        found.add(line)
    return found
