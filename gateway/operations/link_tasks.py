"""What a link does beside mirroring: its tasks, each with its state, its last error, and since when.

A link that was created says nothing of whether its syncs work. So each of them reports here how it went, by one method
per outcome: `succeeded`, `failed`, `not_configured`. Names, states and error codes are those of Confluent's
`link task list`, where it has one.

It lives for one term of leadership: the next leader's tasks are UNKNOWN until they have run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gateway.errors import SourceUnreachable
from gateway.kafka.connection.errors import AuthenticationFailed, BrokerError, ClusterUnavailable, PartitionErrors
from protocol.errors import ErrorCode


class LinkTask(StrEnum):
    """The tasks of a link."""

    CHECK_AVAILABILITY = "CheckAvailability"
    TOPIC_CONFIGS_SYNC = "TopicConfigsSync"
    CONSUMER_OFFSET_SYNC = "ConsumerOffsetSync"
    AUTO_CREATE_MIRROR = "AutoCreateMirror"
    ACL_SYNC = "AclSync"
    SCHEMA_SYNC = "SchemaSync"


class TaskState(StrEnum):
    """ACTIVE: it went well the last time. UNKNOWN: it has not run yet."""

    ACTIVE = "ACTIVE"
    IN_ERROR = "IN_ERROR"
    NOT_CONFIGURED = "NOT_CONFIGURED"
    UNKNOWN = "UNKNOWN"


class TaskErrorCode(StrEnum):
    """Why a task did not do its work. Confluent's REMOTE_LINK_NOT_FOUND is none: no link here has a counterpart."""

    AUTHENTICATION_ERROR = "AUTHENTICATION_ERROR"
    AUTHORIZATION_ERROR = "AUTHORIZATION_ERROR"
    BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR = "BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR"
    CONSUMER_GROUP_IN_USE_ERROR = "CONSUMER_GROUP_IN_USE_ERROR"
    TOPIC_EXISTS_ERROR = "TOPIC_EXISTS_ERROR"
    POLICY_VIOLATION_ERROR = "POLICY_VIOLATION_ERROR"
    UNKNOWN_TOPIC_OR_PARTITION_ERROR = "UNKNOWN_TOPIC_OR_PARTITION_ERROR"
    INTERNAL_ERROR = "INTERNAL_ERROR"


_BY_KAFKA_CODE: Final[Mapping[int, TaskErrorCode]] = {
    **dict.fromkeys(
        (
            int(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            int(ErrorCode.GROUP_AUTHORIZATION_FAILED),
            int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ),
        TaskErrorCode.AUTHORIZATION_ERROR,
    ),
    int(ErrorCode.TOPIC_ALREADY_EXISTS): TaskErrorCode.TOPIC_EXISTS_ERROR,
    int(ErrorCode.POLICY_VIOLATION): TaskErrorCode.POLICY_VIOLATION_ERROR,
    int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): TaskErrorCode.UNKNOWN_TOPIC_OR_PARTITION_ERROR,
}


_WHEN_ASKED: Final = (LinkTask.AUTO_CREATE_MIRROR, LinkTask.ACL_SYNC, LinkTask.SCHEMA_SYNC)


@dataclass(frozen=True, slots=True)
class TaskError:
    """`at_ms`: wall clock, when it was seen last."""

    code: TaskErrorCode
    message: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A task of a link. `since_ms`: wall clock, when it came into its state, or into this error.

    `last_error` stays when the task works again; `state` says which of both is so.
    """

    task: LinkTask
    state: TaskState = TaskState.UNKNOWN
    since_ms: int = 0
    last_run_ms: int | None = None
    last_error: TaskError | None = None

    @property
    def present_error(self) -> TaskError | None:
        """What keeps it from its work now."""
        return self.last_error if self.state is TaskState.IN_ERROR else None


@dataclass(slots=True)
class LinkTasks:
    """Of all links, by the links' names. `now_ms`: the wall clock that they are stamped with."""

    now_ms: Callable[[], int]
    _known: dict[str, dict[LinkTask, TaskStatus]] = field(default_factory=dict)

    def succeeded(self, link: str, task: LinkTask) -> None:
        """It has done its work."""
        self._note(link, task, TaskState.ACTIVE)

    def failed(self, link: str, task: LinkTask, reason: BaseException | tuple[TaskErrorCode, str]) -> None:
        """It has not; tried again at its next time.

        `reason`: what was raised, or a code with one line for the operator, without a secret in it.
        """
        code, message = reason if isinstance(reason, tuple) else (code_of(reason), _words(reason))
        self._note(link, task, TaskState.IN_ERROR, TaskError(code, message, self.now_ms()))

    def not_configured(self, link: str, task: LinkTask) -> None:
        """The link's configs do not ask for it."""
        known = self._of(link).get(task)
        if known is None or known.state is not TaskState.NOT_CONFIGURED:
            self._of(link)[task] = TaskStatus(task, TaskState.NOT_CONFIGURED, self.now_ms())

    def forget(self, link: str) -> None:
        """The link is gone."""
        self._known.pop(link, None)

    def of(self, link: str) -> Sequence[TaskStatus]:
        """Every task of a link, in the order of `LinkTask`."""
        return [self.one(link, task) for task in LinkTask]

    def one(self, link: str, task: LinkTask) -> TaskStatus:
        """One task of a link."""
        return self._known.get(link, {}).get(task) or _unheard_of(task)

    def _of(self, link: str) -> dict[LinkTask, TaskStatus]:
        return self._known.setdefault(link, {})

    def _note(self, link: str, task: LinkTask, state: TaskState, error: TaskError | None = None) -> None:
        now = self.now_ms()
        before = self._of(link).get(task, TaskStatus(task))
        is_same = before.state is state and (error is None or _is_same(before.last_error, error))
        since_ms = before.since_ms if is_same else now
        self._of(link)[task] = TaskStatus(task, state, since_ms, now, error or before.last_error)


def code_of(reason: BaseException | None) -> TaskErrorCode:
    """The code of what was raised, or of what was behind it."""
    seen = 0
    while reason is not None and seen < 8:
        match reason:
            case AuthenticationFailed():
                return TaskErrorCode.AUTHENTICATION_ERROR
            case BrokerError(code=code) if code in _BY_KAFKA_CODE:
                return _BY_KAFKA_CODE[code]
            case PartitionErrors(errors=errors) if found := [c for c in errors.values() if c in _BY_KAFKA_CODE]:
                return _BY_KAFKA_CODE[found[0]]
        if reason.__cause__ is None and isinstance(reason, ClusterUnavailable | SourceUnreachable | OSError):
            return TaskErrorCode.BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR
        reason, seen = reason.__cause__, seen + 1
    return TaskErrorCode.INTERNAL_ERROR


def _unheard_of(task: LinkTask) -> TaskStatus:
    """Of what a link does only when it is asked to, nothing is heard until then."""
    return TaskStatus(task, TaskState.NOT_CONFIGURED if task in _WHEN_ASKED else TaskState.UNKNOWN)


def _words(reason: BaseException) -> str:
    return str(reason) or ("no answer in time" if isinstance(reason, TimeoutError) else type(reason).__name__)


def _is_same(one: TaskError | None, other: TaskError) -> bool:
    return one is not None and (one.code, one.message) == (other.code, other.message)
