"""The tasks of a link: one method per outcome, and what is shown of it."""

from __future__ import annotations

import pytest

from gateway.errors import Conflict, SourceUnreachable
from gateway.kafka.connection.errors import AuthenticationFailed, BrokerError, ClusterUnavailable, PartitionErrors
from gateway.operations.cluster_errors import source_errors
from gateway.operations.link_tasks import LinkTask, LinkTasks, TaskErrorCode, TaskState, TaskStatus, code_of

SYNC = LinkTask.TOPIC_CONFIGS_SYNC


class Clock:
    now = 1_000

    def __call__(self) -> int:
        return self.now


def status(tasks: LinkTasks) -> TaskStatus:
    return next(one for one in tasks.of("l") if one.task is SYNC)


def test_a_task_that_has_not_run_is_unknown_and_one_that_is_not_asked_for_not_configured() -> None:
    found = {one.task: one.state for one in LinkTasks(Clock()).of("l")}
    assert set(found) == set(LinkTask)
    assert (found[SYNC], found[LinkTask.ACL_SYNC]) == (TaskState.UNKNOWN, TaskState.NOT_CONFIGURED)


def test_since_when_and_the_last_error() -> None:
    clock = Clock()
    tasks = LinkTasks(clock)
    tasks.succeeded("l", SYNC)
    clock.now = 2_000
    tasks.succeeded("l", SYNC)
    assert (status(tasks).state, status(tasks).since_ms, status(tasks).last_run_ms) == (TaskState.ACTIVE, 1_000, 2_000)

    clock.now = 3_000
    tasks.failed("l", SYNC, AuthenticationFailed("no"))
    clock.now = 4_000
    tasks.failed("l", SYNC, AuthenticationFailed("no"))
    found = status(tasks)
    assert (found.state, found.since_ms) == (TaskState.IN_ERROR, 3_000)
    assert found.last_error is not None
    assert (found.last_error.code, found.last_error.message, found.last_error.at_ms) == (
        TaskErrorCode.AUTHENTICATION_ERROR,
        "no",
        4_000,
    )

    clock.now = 5_000
    tasks.succeeded("l", SYNC)
    assert (status(tasks).state, status(tasks).since_ms) == (TaskState.ACTIVE, 5_000)
    assert status(tasks).last_error == found.last_error
    tasks.not_configured("l", SYNC)
    assert status(tasks).state is TaskState.NOT_CONFIGURED
    tasks.forget("l")
    assert status(tasks).state is TaskState.UNKNOWN


def behind(exc: Exception) -> BaseException:
    with pytest.raises((SourceUnreachable, Conflict)) as raised, source_errors("l"):
        raise exc
    return raised.value


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (AuthenticationFailed("no"), TaskErrorCode.AUTHENTICATION_ERROR),
        (behind(AuthenticationFailed("no")), TaskErrorCode.AUTHENTICATION_ERROR),
        (BrokerError(29, "no"), TaskErrorCode.AUTHORIZATION_ERROR),
        (behind(BrokerError(29, "no")), TaskErrorCode.AUTHORIZATION_ERROR),
        (PartitionErrors("x", {("t", 0): 29}, {}), TaskErrorCode.AUTHORIZATION_ERROR),
        (ClusterUnavailable("refused"), TaskErrorCode.BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR),
        (behind(ClusterUnavailable("refused")), TaskErrorCode.BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR),
        (SourceUnreachable("lost"), TaskErrorCode.BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR),
        (ValueError("x"), TaskErrorCode.INTERNAL_ERROR),
        (BrokerError(1234, "x"), TaskErrorCode.INTERNAL_ERROR),
    ],
)
def test_the_code_is_of_what_was_behind(reason: BaseException, code: TaskErrorCode) -> None:
    assert code_of(reason) is code
