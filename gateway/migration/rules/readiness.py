"""How ready an application is to be promoted: 0 to 100, each point that is missing with its reason and remedy. Pure.

A finding **blocks** when a promote would be refused or could not end; then the score is at most `BLOCKED`. It **harms**
when the promote would be done and somebody would miss something or wait. What is **noted** costs little: it is to be
looked at. Each kind of finding costs its points once, and a little more for each further thing that it is about, up to
twice of it; so one noisy topic does not hide the rest.

A score is for people and for windows that nobody sits through (`options.min_readiness`). What blocks a promote blocks
it whatever the score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.state.records import GroupState, MirrorState

BLOCKED: Final = 40
"""The most that an application has in which something blocks."""
LONG_TRANSACTION_S: Final = 5.0
"""Of an open transaction: about what a promote waits for (`promote.pause_timeout_s`)."""
LAG_HARMS: Final = 10_000
_NAMED: Final = 5


class Weight(StrEnum):
    """Of a finding."""

    BLOCKS = "BLOCKS"
    HARMS = "HARMS"
    NOTED = "NOTED"


class Code(StrEnum):
    """What a finding is about."""

    SOURCE_UNAVAILABLE = "SOURCE_UNAVAILABLE"
    TARGET_UNAVAILABLE = "TARGET_UNAVAILABLE"
    NOT_MIRRORED = "NOT_MIRRORED"
    MIRROR_STATE = "MIRROR_STATE"
    LAG = "LAG"
    LAG_GROWS = "LAG_GROWS"
    BYPASSED_NOW = "BYPASSED_NOW"
    BYPASSED_LAST_HOUR = "BYPASSED_LAST_HOUR"
    RECORDS_AFTER_CUTOVER = "RECORDS_AFTER_CUTOVER"
    CLIENTS_NOT_MIGRATED = "CLIENTS_NOT_MIGRATED"
    CLIENTS_UNKNOWN = "CLIENTS_UNKNOWN"
    GROUP_NOT_PROMOTED = "GROUP_NOT_PROMOTED"
    GROUP_WITHOUT_COMMITS = "GROUP_WITHOUT_COMMITS"
    TRANSACTION_OPEN = "TRANSACTION_OPEN"
    TRANSACTIONS_UNKNOWN = "TRANSACTIONS_UNKNOWN"
    CONFIGS_SET_BACK = "CONFIGS_SET_BACK"
    COPY_DIFFERS = "COPY_DIFFERS"
    COPY_NOT_DURABLE = "COPY_NOT_DURABLE"
    OFFSETS_UNKNOWN = "OFFSETS_UNKNOWN"
    ACLS_DIFFER = "ACLS_DIFFER"
    ACLS_UNKNOWN = "ACLS_UNKNOWN"
    GATEWAY_LOST = "GATEWAY_LOST"
    PROMOTE_FAILED = "PROMOTE_FAILED"


_WEIGHTS: Final[dict[Code, tuple[Weight, int]]] = {
    Code.SOURCE_UNAVAILABLE: (Weight.BLOCKS, 60),
    Code.TARGET_UNAVAILABLE: (Weight.BLOCKS, 60),
    Code.NOT_MIRRORED: (Weight.BLOCKS, 60),
    Code.MIRROR_STATE: (Weight.BLOCKS, 60),
    Code.GROUP_NOT_PROMOTED: (Weight.BLOCKS, 30),
    Code.TRANSACTION_OPEN: (Weight.BLOCKS, 20),
    Code.GATEWAY_LOST: (Weight.BLOCKS, 20),
    Code.BYPASSED_NOW: (Weight.BLOCKS, 30),
    Code.COPY_NOT_DURABLE: (Weight.BLOCKS, 20),
    Code.LAG: (Weight.HARMS, 10),
    Code.LAG_GROWS: (Weight.HARMS, 15),
    Code.CLIENTS_NOT_MIGRATED: (Weight.HARMS, 20),
    Code.BYPASSED_LAST_HOUR: (Weight.HARMS, 15),
    Code.RECORDS_AFTER_CUTOVER: (Weight.HARMS, 15),
    Code.PROMOTE_FAILED: (Weight.HARMS, 5),
    Code.GROUP_WITHOUT_COMMITS: (Weight.HARMS, 8),
    Code.ACLS_DIFFER: (Weight.HARMS, 10),
    Code.COPY_DIFFERS: (Weight.HARMS, 10),
    Code.CLIENTS_UNKNOWN: (Weight.NOTED, 5),
    Code.OFFSETS_UNKNOWN: (Weight.NOTED, 5),
    Code.TRANSACTIONS_UNKNOWN: (Weight.NOTED, 3),
    Code.ACLS_UNKNOWN: (Weight.NOTED, 3),
    Code.CONFIGS_SET_BACK: (Weight.NOTED, 3),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderSeen:
    """A member on the source that reads a topic. `group`: its name there."""

    group: str
    client_id: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReady:
    """A topic, by its name on the source. `state`: of its mirror, None where there is none. `lag`: records, and
    `lag_before` a few minutes ago; None while they are not known. `bypassed_now`, `bypassed_hour`: records of the last
    minute and hour that came beside the gateway. `after_cutover`: records that came to the source behind the cutover;
    None: not measured yet.
    `readers`: who reads it on the source; None when that is not told, for the reason in `unknown`. `kept`: it is
    promoted, and mirrored back for an undo. `warnings`: in what the copy differs, see `topics/copy_differences.py`;
    `not_durable`: why a promote would be refused for that."""

    name: str
    state: MirrorState | None = None
    remark: str = ""
    lag: int | None = 0
    lag_before: int | None = None
    bypassed_now: int = 0
    bypassed_hour: int = 0
    after_cutover: int | None = 0
    readers: tuple[ReaderSeen, ...] | None = ()
    unknown: str = ""
    set_back: int = 0
    warnings: tuple[str, ...] = ()
    not_durable: str = ""
    promote_error: str = ""
    kept: bool = False

    @property
    def is_promoted(self) -> bool:
        """The target is written."""
        return self.state is MirrorState.STOPPED or self.kept


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReady:
    """A group, by its name on the source. `state`: None where it is no mirror group. `uncommitted`: topics of the
    application that it reads and has no offset of; None: the source did not tell, for the reason in `remark`. `remark`:
    what it waits for."""

    name: str
    state: GroupState | None = None
    members: int | None = 0
    uncommitted: tuple[str, ...] | None = ()
    remark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """One that has a topic of the application and is not ended. Seconds: for how long it is open, and may be."""

    transactional_id: str
    topics: tuple[str, ...]
    open_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LostGateway:
    """One of the fleet that is not heard of. `lease_left_s`: for how long promotes wait for it; None: not known."""

    name: str
    state: str
    lease_left_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessScene:
    """All that is looked at. `together`: groups move with the topics. `source_trouble`, `target_trouble`: why a cluster
    does not answer. `transactions`: None when the source does not tell, see `transactions_unknown`. `acls_missing`:
    ACLs of the source that the target does not have, nor gets by the promote; None when there are none to compare, or
    they could not be compared, for the reason in `acls_unknown`."""

    application: str
    together: bool = False
    topics: tuple[TopicReady, ...] = ()
    groups: tuple[GroupReady, ...] = ()
    transactions: tuple[OpenTransaction, ...] | None = ()
    transactions_unknown: str = ""
    source_trouble: str = ""
    target_trouble: str = ""
    acls_missing: int | None = None
    acls_unknown: str = ""
    gateways: tuple[LostGateway, ...] = ()
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is missing. `points`: what it costs. `names`: what it is about. `remedy`: what to do."""

    code: Code
    weight: Weight
    points: int
    reason: str
    remedy: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Of one application. `findings`: what costs most first."""

    application: str
    score: int
    findings: tuple[Finding, ...]


def judge(scene: ReadinessScene) -> Readiness:
    """The readiness of an application."""
    found = [
        *_clusters(scene),
        *_topics(scene),
        *_groups(scene),
        *_transactions(scene),
        *_access(scene),
        *_fleet(scene),
    ]
    found.sort(key=lambda one: (-one.points, one.code))
    score = max(0, 100 - sum(one.points for one in found))
    if any(one.weight is Weight.BLOCKS for one in found):
        score = min(score, BLOCKED)
    return Readiness(application=scene.application, score=score, findings=tuple(found))


def _finding(code: Code, names: Sequence[str], reason: str, remedy: str) -> Finding:
    weight, points = _WEIGHTS[code]
    costs = min(2 * points, points + max(0, len(names) - 1))
    return Finding(code=code, weight=weight, points=costs, reason=reason, remedy=remedy, names=tuple(names))


def _clusters(scene: ReadinessScene) -> Iterator[Finding]:
    if scene.source_trouble:
        yield _finding(Code.SOURCE_UNAVAILABLE, (), scene.source_trouble, f"lockgate link describe {scene.link}")
    if scene.target_trouble:
        yield _finding(Code.TARGET_UNAVAILABLE, (), scene.target_trouble, "look at the target's brokers")


def _topics(scene: ReadinessScene) -> Iterator[Finding]:
    left = [one for one in scene.topics if not one.is_promoted]
    missing = [one.name for one in left if one.state is None]
    if missing:
        yield _finding(Code.NOT_MIRRORED, missing, f"{_some(missing)}: not mirrored", "lockgate migration apply FILE")
    wrong = [one for one in left if one.state not in (None, MirrorState.ACTIVE, MirrorState.PENDING_STOPPED)]
    if wrong:
        reason = f"{_some([one.name for one in wrong])}: {_state(wrong[0])}"
        remedy = f"lockgate mirror describe {wrong[0].name} --link {scene.link}"
        yield _finding(Code.MIRROR_STATE, [one.name for one in wrong], reason, remedy)
    yield from _lag(left)
    yield from _clients(scene, left)
    failed = [one for one in left if one.promote_error]
    if failed:
        reason = f"the last promote of {_some([one.name for one in failed])} was given up: {failed[0].promote_error}"
        yield _finding(
            Code.PROMOTE_FAILED, [one.name for one in failed], reason, "mend what it says, and promote again"
        )
    if weak := [one for one in left if one.not_durable]:
        remedy = f"lockgate mirror describe {weak[0].name} --link {scene.link} says what can be done"
        yield _finding(Code.COPY_NOT_DURABLE, [one.name for one in weak], weak[0].not_durable, remedy)
    if differing := [one for one in left if one.warnings and not one.not_durable]:
        reason = f"the copy of {_some([one.name for one in differing])}: {differing[0].warnings[0]}"
        remedy = f"lockgate mirror describe {differing[0].name} --link {scene.link}"
        yield _finding(Code.COPY_DIFFERS, [one.name for one in differing], reason, remedy)
    drifted = [one.name for one in left if one.set_back]
    if drifted:
        reason = f"somebody changed configs of {_some(drifted)} on the target, and they were set back"
        yield _finding(Code.CONFIGS_SET_BACK, drifted, reason, "change them on the source, or give the mirror its own")


def _state(one: TopicReady) -> str:
    return f"{one.state.value if one.state else ''}{f', {one.remark}' if one.remark else ''}"


def _lag(left: Sequence[TopicReady]) -> Iterator[Finding]:
    behind = [one for one in left if one.state is MirrorState.ACTIVE and (one.lag is None or one.lag > LAG_HARMS)]
    if behind:
        total = sum(one.lag or 0 for one in behind)
        reason = f"{_some([one.name for one in behind])}: {total:,} records behind, or not measured yet"
        remedy = "wait, or copy the backlog with `lockgate job catch-up`"
        yield _finding(Code.LAG, [one.name for one in behind], reason, remedy)
    growing = [one for one in left if one.lag and one.lag_before is not None and one.lag > one.lag_before + 1_000]
    if growing:
        reason = f"the lag of {_some([one.name for one in growing])} has grown over the last minutes"
        remedy = "more partitions or gateways, or no throttle (throttle.bytes.per.second)"
        yield _finding(Code.LAG_GROWS, [one.name for one in growing], reason, remedy)


def _clients(scene: ReadinessScene, left: Sequence[TopicReady]) -> Iterator[Finding]:
    now = [one for one in left if one.bypassed_now]
    if now:
        count = sum(one.bypassed_now for one in now)
        topics = _some([one.name for one in now])
        reason = f"{count:,} records of the last minute were written to {topics} beside the gateway"
        remedy = "restart these producers onto the gateway: what they write under the pause aborts the promote"
        yield _finding(Code.BYPASSED_NOW, [one.name for one in now], reason, remedy)
    hour = [one for one in left if one.bypassed_hour and not one.bypassed_now]
    if hour:
        count = sum(one.bypassed_hour for one in hour)
        reason = f"{count:,} records of the last hour came to {_some([one.name for one in hour])} beside the gateway"
        yield _finding(
            Code.BYPASSED_LAST_HOUR, [one.name for one in hour], reason, "find the producers that run now and then"
        )
    own = {one.name for one in scene.groups if one.state is not GroupState.PROMOTED}
    readers = sorted({reader for one in left for reader in one.readers or () if reader.group not in own}, key=str)
    if readers:
        shown = ", ".join(f"{one.client_id} of '{one.group}' at {one.host}" for one in readers[:_NAMED])
        reason = f"{len(readers)} client(s) read on the source: {shown}"
        remedy = "restart them onto the gateway"
        yield _finding(Code.CLIENTS_NOT_MIGRATED, [one.client_id for one in readers], reason, remedy)
    untold = [one for one in left if one.readers is None]
    if untold:
        reason = f"who reads {_some([one.name for one in untold])} on the source is not told: {untold[0].unknown}"
        yield _finding(Code.CLIENTS_UNKNOWN, [one.name for one in untold], reason, "let the link DESCRIBE the groups")
    yield from _behind_the_cutover(scene.topics)


def _behind_the_cutover(topics: Sequence[TopicReady]) -> Iterator[Finding]:
    untold = [one for one in topics if one.after_cutover is None]
    if untold:
        reason = f"whether somebody wrote {_some([one.name for one in untold])} on the source is not measured yet"
        yield _finding(Code.CLIENTS_UNKNOWN, [one.name for one in untold], reason, "let the link reach its source")
    late = [one for one in topics if one.after_cutover]
    if late:
        count = sum(one.after_cutover or 0 for one in late)
        reason = f"{count:,} records came to {_some([one.name for one in late])} on the source behind the cutover"
        remedy = "stop that producer; its records are on the source only"
        yield _finding(Code.RECORDS_AFTER_CUTOVER, [one.name for one in late], reason, remedy)


def _groups(scene: ReadinessScene) -> Iterator[Finding]:
    left = [one for one in scene.groups if one.state is not GroupState.PROMOTED]
    standing = [one for one in left if one.members or one.members is None] if scene.together else left
    if standing:
        first = standing[0]
        said = (
            f"{first.members} member(s) on the source" if first.members else first.remark or "nobody waits at its gate"
        )
        reason = f"{_some([one.name for one in standing])}: not promoted ({said})"
        remedy = "restart its members onto the gateway; they wait until the last one has left the source"
        yield _finding(Code.GROUP_NOT_PROMOTED, [one.name for one in standing], reason, remedy)
    silent = [one for one in left if one.uncommitted]
    if silent:
        missing = _some(silent[0].uncommitted or ())
        reason = f"'{silent[0].name}' has no offset of {missing}: it begins there by auto.offset.reset"
        remedy = "let it commit once on the source, if it is to go on where it was"
        yield _finding(Code.GROUP_WITHOUT_COMMITS, [one.name for one in silent], reason, remedy)
    untold = [one for one in left if one.uncommitted is None]
    if untold:
        reason = (
            f"which offsets {_some([one.name for one in untold])} has on the source is not told: {untold[0].remark}"
        )
        yield _finding(Code.OFFSETS_UNKNOWN, [one.name for one in untold], reason, "let the link DESCRIBE the groups")


def _transactions(scene: ReadinessScene) -> Iterator[Finding]:
    if scene.transactions is None:
        reason = f"open transactions are not told: {scene.transactions_unknown}"
        yield _finding(Code.TRANSACTIONS_UNKNOWN, (), reason, "let the link DESCRIBE transactional ids")
        return
    long = sorted((one for one in scene.transactions if one.open_s > LONG_TRANSACTION_S), key=lambda one: -one.open_s)
    if long:
        first = long[0]
        reason = (
            f"transactional id '{first.transactional_id}' has {_some(first.topics)} open for {first.open_s:.0f} s"
            f"{f', and {len(long) - 1} more' if long[1:] else ''}"
        )
        remedy = f"wait for its end, at most {first.timeout_s:.0f} s, or raise promote.pause_timeout_s"
        yield _finding(Code.TRANSACTION_OPEN, [one.transactional_id for one in long], reason, remedy)


def _access(scene: ReadinessScene) -> Iterator[Finding]:
    if scene.acls_missing:
        reason = f"{scene.acls_missing} ACL(s) of the source are not on the target"
        yield _finding(Code.ACLS_DIFFER, (), reason, f"lockgate link acls plan {scene.link}; acl.sync.enable=true")
    if scene.acls_unknown:
        reason = f"whether the target has the source's ACLs is not told: {scene.acls_unknown}"
        yield _finding(Code.ACLS_UNKNOWN, (), reason, f"lockgate link acls plan {scene.link}")


def _fleet(scene: ReadinessScene) -> Iterator[Finding]:
    if scene.gateways:
        first = scene.gateways[0]
        left = "an unknown time" if first.lease_left_s is None else f"{first.lease_left_s:.0f} s"
        reason = f"gateway '{first.name}' is {first.state}: a promote waits for its lease, {left} yet"
        remedy = f"start it, or lockgate gateway forget {first.name} once it has stopped"
        yield _finding(Code.GATEWAY_LOST, [one.name for one in scene.gateways], reason, remedy)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
