"""What the planes hand in at a scrape: plain numbers, of which `metrics.py` makes metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gateway.access.acl_sync import AclCounts
from gateway.mirror.interface import PartitionStatus
from gateway.operations.link_tasks import TaskStatus
from gateway.schemas.schema_sync import SchemaCounts
from gateway.state.records import MirrorError, MirrorState
from gateway.topics.auto_create import AutoCreated
from gateway.topics.catch_up import CatchUp
from gateway.transport.loop_watch import Stalls


class ApiNumbers(Protocol):
    """Totals of one API; `buckets` are counts per bucket, not cumulative, the last one above all bounds."""

    @property
    def api_key(self) -> int: ...  # noqa: D102
    @property
    def requests(self) -> int: ...  # noqa: D102
    @property
    def request_bytes(self) -> int: ...  # noqa: D102
    @property
    def buckets(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def latency_sum_s(self) -> float: ...  # noqa: D102


class TokenNumbers(NamedTuple):
    """Delegation tokens of one cluster with which the gateway logs in for clients. `owners`: who have one now."""

    owners: int
    made: int
    refused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyNumbers:
    """What the data plane counts. `bounds_s`: upper bounds of the latency buckets. `refused`: connections, by limit.

    `uncounted_waiters`: requests that waited at gates beyond their principal's limit. `held_bytes`: of requests
    that wait in the gateway; `held_answer_bytes`: of answers that clients have not taken; `answers_waited`: how
    often one waited for room. `unread_connections`, `unread_times`: who is not read for the memory of requests, now
    and so far. `throttled`: writes to sources beyond their principal's quota. `tokens`: by link, '' for the target.
    `client_errors`: link -> what failed -> connections to its source that could not be opened. `forwarded`: Produce
    requests that were sent to a source. `writes_throttled_s`: link -> for how long its source has throttled them.
    """

    bounds_s: Sequence[float]
    apis: Sequence[ApiNumbers]
    connections: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    uncounted_waiters: int = 0
    held_bytes: int = 0
    held_answer_bytes: int = 0
    answers_waited: int = 0
    unread_connections: int = 0
    unread_times: int = 0
    throttled: int = 0
    tokens: Mapping[str, TokenNumbers] = field(default_factory=dict)
    client_errors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    closed: Mapping[str, int] = field(default_factory=dict)
    auto_create_refused: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, int] = field(default_factory=dict)
    forwarded: int = 0
    writes_throttled_s: Mapping[str, float] = field(default_factory=dict)


class LastPause(NamedTuple):
    """A write pause. `ago_s`: seconds since its end; `seconds`: how long it was."""

    ago_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class MirrorNumbers:
    """One mirror topic; `records_after_cutover`: on the source, None: not measured; `lost`: deleted there too early.

    `reverse`: it is mirrored back. `not_mirrored`: records that a failover is known to have left behind.
    `state_since_ms`: wall clock. `partition_count`: also while none is measured. `error`: why it FAILED, or NO_ERROR.
    `promote_failed`: the last promote did not end in STOPPED. `retries_unknown`: partitions in which a retry over the
    last failover may be appended once more. `catch_up`: the job that copies it. `set_back`: configs that somebody
    changed on the copy, and `transition_errors`: both as many as are kept. `warnings`: ways in which its
    copy differs from its origin. `undo_until_ms`: until when its promote can
    be taken back, wall clock; None: it cannot. `at_risk`: records that the source does not have yet; None: not known.
    `undo_refused`: its mirror back could not be begun. `last_pause`: of its writes, while the present leader leads;
    None: none.
    """

    link: str
    topic: str
    state: MirrorState
    partitions: Sequence[PartitionStatus]
    records_after_cutover: int | None = 0
    lost: int = 0
    reverse: bool = False
    not_mirrored: int = 0
    state_since_ms: int = 0
    partition_count: int = 0
    translated: bool = False
    readable: bool = True
    error: MirrorError = MirrorError.NO_ERROR
    promote_failed: bool = False
    retries_unknown: int = 0
    catch_up: CatchUp | None = None
    set_back: int = 0
    warnings: int = 0
    transition_errors: int = 0
    undo_until_ms: int | None = None
    at_risk: int | None = None
    undo_refused: bool = False
    last_pause: LastPause | None = None


class ClientSeen(NamedTuple):
    """A client by name. `on`: `source`, where it is a member, or `gate`, where it waits."""

    client_id: str
    host: str
    on: str


@dataclass(frozen=True, slots=True)
class GroupNumbers:
    """One mirror group; `waiting`: members held at its gate; `members_after_promote`: on the source.

    `synced_ms`: wall clock of its last offset sync, None while it has none; `sync_lag`: records read on the source that
    the mirror does not have yet; `held_back`: partitions whose offset the sync would have to lower; `sync_committed`,
    `sync_errors`, `sync_round_s`, `sync_failing`: see `OffsetSyncStatus`. `state_since_ms`: wall clock. `carried`:
    offsets that its promote carried over. `members`: on the source, None while that is not known, or it is promoted.
    `clients`: members that are seen, the first ones. `longest_wait_s`: of a member at its gate. `source_lag`,
    `target_lag`: mirror topic -> records not committed yet.
    """

    link: str
    group: str
    state: str
    waiting: int
    members_after_promote: int = 0
    commits_after_promote: int = 0
    synced_ms: int | None = None
    sync_lag: int = 0
    held_back: int = 0
    sync_committed: int = 0
    sync_errors: int = 0
    sync_round_s: float = 0.0
    sync_failing: bool = False
    state_since_ms: int = 0
    carried: int = 0
    members: int | None = None
    longest_wait_s: float = 0.0
    source_lag: Mapping[str, int] = field(default_factory=dict)
    target_lag: Mapping[str, int] = field(default_factory=dict)
    clients: Sequence[ClientSeen] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkNumbers:
    """One link. `state`, `error`: Confluent's words, '' for no error. `state_since_ms`: wall clock. `tasks`: what it
    does beside mirroring. `auto_created`: None while it does not auto-create; `acls`, `schemas`: None while it copies
    none. `groups_held`: groups whose requests wait for what its source says of them."""

    link: str
    state: str
    state_since_ms: int = 0
    error: str = ""
    groups_held: int = 0
    tasks: Sequence[TaskStatus] = ()
    auto_created: AutoCreated | None = None
    acls: AclCounts | None = None
    schemas: SchemaCounts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationNumbers:
    """One migration. `readiness`: application -> 0 to 100, as last judged; empty before.

    `client_errors_percent`: of the answers to clients of what is promoted, in the last minute, 0 to 100; None without
    the rule in its file, or while too few were looked at. `answers_looked_at`: for that; None without the rule.
    `problems`: what only a person can mend, as of the last look; `refused`: step -> why, of those that are tried again.
    """

    migration: str
    link: str
    state: str
    readiness: Mapping[str, int] = field(default_factory=dict)
    client_errors_percent: float | None = None
    answers_looked_at: int | None = None
    problems: Sequence[str] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ControlNumbers:
    """What the control plane knows. `links`: name -> is its source there. `link_numbers`: the rest of them."""

    links: Mapping[str, bool]
    mirrors: Sequence[MirrorNumbers]
    groups: Sequence[GroupNumbers]
    link_numbers: Sequence[LinkNumbers] = ()
    migrations: Sequence[MigrationNumbers] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNumbers:
    """This gateway in its fleet. `states`: of the leader, how many gateways are up, silent, lost; else empty.

    `lease_left_s`: for how long it may write to sources without being heard of. `mirrored`: partitions, here.
    `audit_lost`: lines of the audit trail that are not in its topic; None without a topic. `lost_lease_s`: for how long
    promotes wait for lost gateways; None while that is not known. `throttled_s`: link -> for how long brokers have held
    the fetches of this gateway back. `stalls`: cause -> turns of the event loop that were too long
    (`transport/loop_watch.py`). `state_losses`: how often this gateway was told that the state topic has lost records
    that were acknowledged. `agreed`: the fleet's coordinator agrees with this gateway (`/v3/status` says why not).
    """

    leads: bool
    lease_left_s: float
    mirrored: int
    states: Mapping[str, int] = field(default_factory=dict)
    audit_lost: int | None = None
    lost_lease_s: float | None = None
    throttled_s: Mapping[str, float] = field(default_factory=dict)
    stalls: Mapping[str, Stalls] = field(default_factory=dict)
    state_losses: int = 0
    append_throttled_s: Mapping[str, float] = field(default_factory=dict)
    agreed: bool = True
