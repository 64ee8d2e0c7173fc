"""How many answers to clients of what a migration has promoted are errors: counts, their sum, and the share. Pure.

An answer counts once for each topic in it (a commit: for its group), and is an error when a partition of that topic has
one that counts. Gateways look at some of the answers, and say how many each of these stands for: so
`answers` and `failed` are estimates of all, `samples` and `failures` what was seen.

One table has the errors that do not tell that clients fail, for the stop rule `client_errors_percent`. What is in it
does not count: the client goes on by itself, and it belongs to the life of a cluster, or a cutover
causes it by design. Every other error counts, those that this version does not know too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gateway.cutover.write_pause.rules.routing_build import written_on_target
from gateway.migration.rules.file import Meant, MigrationFile
from gateway.state.records import GroupRecord, GroupState, MirrorRecord, MirrorState, Undo
from protocol.errors import ErrorCode, error_name

_LEADER: Final = "a leader or a replica has moved: the client asks for metadata and sends again"
_BROKER: Final = "a broker is busy, behind or away for a moment: the client sends again"
_PAUSE: Final = "replicas are behind; the gateway says it too while writes are paused: the client sends again"
_NEW_TOPIC: Final = "not every broker knows a topic that was just created: the client asks again"
_COORDINATOR: Final = "a coordinator has moved or loads; a closed gate says it too: the client asks again"
_SESSION: Final = "a fetch session has ended: the client begins another one"
_MEMBER: Final = "a rebalance, or a member that was replaced; each restart and each promote brings them: it joins again"
_PRODUCER: Final = "another instance has taken the producer's place: a rolling restart does it"
_TRANSACTION: Final = "a transaction is to be aborted and begun again: a cutover asks for it, and clients do it"
_FORGOTTEN: Final = "a broker has forgotten an idle producer (KIP-360): the client goes on with a new epoch"
_THERE: Final = "the batch is in the log: the client takes it as written"
_QUOTA: Final = "a quota: the client slows down"

NOT_COUNTED: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _NEW_TOPIC,
    ErrorCode.UNKNOWN_TOPIC_ID: _NEW_TOPIC,
    ErrorCode.INCONSISTENT_TOPIC_ID: _NEW_TOPIC,
    ErrorCode.LEADER_NOT_AVAILABLE: _LEADER,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: _LEADER,
    ErrorCode.REPLICA_NOT_AVAILABLE: _LEADER,
    ErrorCode.FENCED_LEADER_EPOCH: _LEADER,
    ErrorCode.UNKNOWN_LEADER_EPOCH: _LEADER,
    ErrorCode.OFFSET_NOT_AVAILABLE: _LEADER,
    ErrorCode.LISTENER_NOT_FOUND: _LEADER,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: _LEADER,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: _LEADER,
    ErrorCode.ELECTION_NOT_NEEDED: _LEADER,
    ErrorCode.NOT_CONTROLLER: _LEADER,
    ErrorCode.REQUEST_TIMED_OUT: _BROKER,
    ErrorCode.NETWORK_EXCEPTION: _BROKER,
    ErrorCode.KAFKA_STORAGE_ERROR: _BROKER,
    ErrorCode.NOT_ENOUGH_REPLICAS: _PAUSE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _PAUSE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _COORDINATOR,
    ErrorCode.NOT_COORDINATOR: _COORDINATOR,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: _COORDINATOR,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: _SESSION,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: _SESSION,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: _SESSION,
    ErrorCode.SHARE_SESSION_NOT_FOUND: _SESSION,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: _SESSION,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: _SESSION,
    ErrorCode.ILLEGAL_GENERATION: _MEMBER,
    ErrorCode.UNKNOWN_MEMBER_ID: _MEMBER,
    ErrorCode.REBALANCE_IN_PROGRESS: _MEMBER,
    ErrorCode.MEMBER_ID_REQUIRED: _MEMBER,
    ErrorCode.FENCED_INSTANCE_ID: _MEMBER,
    ErrorCode.UNRELEASED_INSTANCE_ID: _MEMBER,
    ErrorCode.FENCED_MEMBER_EPOCH: _MEMBER,
    ErrorCode.STALE_MEMBER_EPOCH: _MEMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH: _PRODUCER,
    ErrorCode.PRODUCER_FENCED: _PRODUCER,
    ErrorCode.CONCURRENT_TRANSACTIONS: _TRANSACTION,
    ErrorCode.TRANSACTION_ABORTABLE: _TRANSACTION,
    ErrorCode.UNKNOWN_PRODUCER_ID: _FORGOTTEN,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: _THERE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: _QUOTA,
}
"""Error -> why it does not count. Of those that clients retry, CORRUPT_MESSAGE alone counts: the same batch is refused
again and again."""


def counts(code: int) -> bool:
    """Whether an error tells that a client fails."""
    return code != ErrorCode.NONE and code not in NOT_COUNTED


WINDOW_S: Final = 60.0
"""How far back answers count."""
LEAST_SAMPLES: Final = 20
"""Answers that must have been looked at before there is a share."""
LEAST_FAILURES: Final = 5
"""Errors among them that must have been seen before a share counts as one that is exceeded."""
WATCHED: Final = 2_000
"""Topics and groups of a migration that are watched, those that were promoted last."""
ERRORS: Final = 8
"""Errors of one name that are told apart."""
TOPIC: Final = "topic"
GROUP: Final = "group"
_CLIENT_CHARS: Final = 100


class Name(NamedTuple):
    """A topic or a group, as clients of the gateway name it."""

    kind: str
    name: str


class Failure(NamedTuple):
    """An error code, how many answers had it, and the client id that got it last; '' where that is not known."""

    code: int
    answers: int
    client: str

    def __str__(self) -> str:
        """The error by its name, and who got it."""
        return error_name(self.code) + (f", client '{self.client}'" if self.client else "")


@dataclass(frozen=True, slots=True)
class AnswerCount:
    """Of one name, or of several. `errors`: most frequent first, at most `ERRORS`."""

    answers: int = 0
    failed: int = 0
    samples: int = 0
    failures: int = 0
    errors: tuple[Failure, ...] = ()

    @property
    def percent(self) -> float | None:
        """Of answers that are errors, 0 to 100; None while too few were looked at."""
        if self.samples < LEAST_SAMPLES or not self.answers:
            return None
        return 100.0 * self.failed / self.answers

    def plus(self, other: AnswerCount) -> AnswerCount:
        """Both together."""
        return AnswerCount(
            self.answers + other.answers,
            self.failed + other.failed,
            self.samples + other.samples,
            self.failures + other.failures,
            most_frequent((*self.errors, *other.errors)),
        )


def most_frequent(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    """Those of one code as one, the most frequent first; a client id that is known counts."""
    found: dict[int, Failure] = {}
    for one in failures:
        before = found.get(one.code)
        if before is not None:
            one = Failure(one.code, before.answers + one.answers, one.client or before.client)
        found[one.code] = one
    return tuple(sorted(found.values(), key=lambda one: (-one.answers, one.code))[:ERRORS])


class Worst(NamedTuple):
    """Where the share of errors is highest. `name`: of all together, the one with most errors."""

    percent: float
    name: Name
    seen: AnswerCount


@dataclass(frozen=True, slots=True)
class ClientErrors:
    """Of a migration. `gateways`: processes that told; `unheard`: of those that did not."""

    counts: Mapping[Name, AnswerCount] = field(default_factory=dict)
    gateways: int = 1
    unheard: Sequence[str] = ()

    @property
    def total(self) -> AnswerCount:
        """All names together."""
        every = self.counts.values()
        return AnswerCount(
            sum(one.answers for one in every),
            sum(one.failed for one in every),
            sum(one.samples for one in every),
            sum(one.failures for one in every),
            most_frequent(failure for one in every for failure in one.errors),
        )

    @property
    def failing(self) -> Sequence[tuple[Name, AnswerCount]]:
        """The names that have errors, those with most first."""
        return sorted(
            ((name, count) for name, count in self.counts.items() if count.failed),
            key=lambda found: (-found[1].failed, found[0]),
        )

    @property
    def worst(self) -> Worst | None:
        """The highest share, of one name or of all; None while too few answers, or errors, were seen.

        Of one: a topic whose clients all fail must not be lost among a thousand. Of all: a thousand topics that are
        written seldom must not hide it from the least number of samples.
        """
        failing = self.failing
        if not failing:
            return None
        found = [*failing, (failing[0][0], self.total)]
        shares = [
            Worst(percent, name, count)
            for name, count in found
            if count.failures >= LEAST_FAILURES and (percent := count.percent) is not None
        ]
        return max(shares, key=lambda one: (one.percent, one.seen.failed), default=None)


def summed(told: Iterable[Mapping[Name, AnswerCount]], unheard: Sequence[str] = ()) -> ClientErrors:
    """Of all gateways."""
    counts: dict[Name, AnswerCount] = {}
    gateways = 0
    for of_gateway in told:
        gateways += 1
        for name, count in of_gateway.items():
            counts[name] = counts[name].plus(count) if name in counts else count
    return ClientErrors(counts, gateways, tuple(unheard))


def promoted_names(
    file: MigrationFile, mirrors: Iterable[MirrorRecord], groups: Iterable[GroupRecord]
) -> frozenset[Name]:
    """What the file names and is promoted, under the names that clients use; at most `WATCHED`, the newest.

    `mirrors`, `groups`: all that there are.
    """
    topics_named = Meant((name, one.name) for one in file.applications for name in one.topics)
    groups_named = Meant((name, one.name) for one in file.applications for name in one.groups)
    found = [
        (mirror.cutover.at_ms, Name(TOPIC, mirror.mirror_topic))
        for mirror in mirrors
        if mirror.link == file.link and _is_promoted(mirror) and topics_named.owner(mirror.source_topic)
    ]
    found += [
        (group.state_since_ms, Name(GROUP, group.group))
        for group in groups
        if group.link == file.link and group.state is GroupState.PROMOTED and groups_named.owner(group.source_name)
    ]
    return frozenset(name for _, name in sorted(found, reverse=True)[:WATCHED])


def _is_promoted(mirror: MirrorRecord) -> bool:
    """The target is written, and nobody is about to go back by hand."""
    is_kept = mirror.state is MirrorState.STOPPED or mirror.cutover.undo is not Undo.NONE
    return written_on_target(mirror) and is_kept


def encode_counts(counts: Mapping[Name, AnswerCount]) -> list[Any]:
    """As JSON."""
    return [
        [*name, one.answers, one.failed, one.samples, one.failures, [list(error) for error in one.errors]]
        for name, one in counts.items()
    ]


def decode_counts(said: Iterable[Any]) -> Mapping[Name, AnswerCount]:
    """What another gateway said. Raises TypeError, ValueError: it is none of this."""
    return {
        Name(str(kind), str(name)): AnswerCount(
            int(answers),
            int(failed),
            int(samples),
            int(failures),
            most_frequent(Failure(int(code), int(count), str(client)) for code, count, client in errors),
        )
        for kind, name, answers, failed, samples, failures, errors in said
    }


def encode_names(names: Collection[Name]) -> list[list[str]]:
    """As JSON, the same for the same names."""
    return [list(name) for name in sorted(names)]


def decode_names(said: Iterable[Any]) -> frozenset[Name]:
    """Raises TypeError, ValueError: it is no list of kind and name."""
    return frozenset(Name(str(kind), str(name)) for kind, name in said)


def client_shown(client: str | None) -> str:
    """A client id as it is kept: what a client may say is cut."""
    return (client or "")[:_CLIENT_CHARS]
