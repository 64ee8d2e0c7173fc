"""The door for acts: whatever changes a cluster or a schema registry needs a permit, asked right before each try.

An act is decided from what was read some time ago: a record, a lease, a look at both clusters. Between the decision and
the request, and between one try and the next, a promote may cut over, a link may be deleted, another gateway may lead.
So a permit is no flag but a question. Whoever decides opens the door with it (`permitted`), and the client asks it
(`require_permit`) right before the bytes of each try leave: in `Connection.request` for every request whose API is in
`CHANGES`, and in the registry's client. What is refused here was never sent: the caller decides again.

    with permitted(still_the_record_that_was_decided_on):
        await access.alter_topic_configs(...)

A gateway runs `guarded`: without an open door it changes nothing. The permit belongs to the context (PEP 567), as tasks
inherit it, so a request that is split by broker, or tried again after a change of leaders, asks the same question.
Processes that are no gateway (Spark jobs, `lockgate dev`) act on nobody's behalf but their own, and are not guarded.

The mirror's appends, the state topic's transactions and forwarded writes of clients are no acts in this sense: the
broker refuses them by producer id, epoch and sequence once another gateway has taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from gateway.kafka.connection.errors import NetError, PartitionErrors
from protocol.apis import ApiKey

CHANGES: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_RECORDS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_GROUPS,
        ApiKey.LEAVE_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,  # sent by a gateway to take members out (KIP-848)
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.WRITE_TXN_MARKERS,
    }
)
"""The APIs by which a cluster is changed. Questions that only look like changes (`validate_only`) need no permit."""

Permit: TypeAlias = Callable[[], None]
"""Raises ActRefused when what was decided no longer holds. Asks nobody: it takes no time."""


class ActRefused(NetError):
    """The door is shut: what the act was decided from is no longer so. Nothing was sent; decide again."""


class RestRefused(PartitionErrors, ActRefused):
    """The door was shut while an act went from broker to broker: some of it is done, see `partial`; the rest was not
    sent, or may be done (`errors`). Decide again."""


def _shut() -> None:
    raise ActRefused("this change was not decided on for a record, a term or a lease that still holds")


_open: Final[ContextVar[Permit | None]] = ContextVar("permit", default=None)


@contextmanager
def guarded() -> Iterator[None]:
    """What is begun in here changes clusters by permits alone."""
    token = _open.set(_shut)
    try:
        yield
    finally:
        _open.reset(token)


@contextmanager
def permitted(permit: Permit) -> Iterator[None]:
    """What is sent in here is sent as long as `permit` says so. The innermost permit alone is asked.

    Raises:
        ActRefused: it does not say so now; nothing was begun.
    """
    permit()
    token = _open.set(permit)
    try:
        yield
    finally:
        _open.reset(token)


def own_act() -> AbstractContextManager[None]:
    """For what a gateway does on its own behalf, whoever leads: it creates the topics that it keeps its state in, and
    renews its lease in the fleet's group, or leaves that. Nobody else's record, topic or group is touched."""
    return permitted(_granted)


def _granted() -> None:
    """No record, term or lease is what this is decided from."""


def require_permit(what: str) -> None:
    """Ask, right before something is changed. `what` names the change, for the error.

    Raises:
        ActRefused: nothing may be sent.
    """
    permit = _open.get()
    if permit is None:
        return
    try:
        permit()
    except ActRefused as refused:
        raise ActRefused(f"{what} was not sent: {refused}") from refused


def current_permit() -> Permit | None:
    """The permit of this context; None where nobody guards it. For fakes that stand in for a cluster."""
    return _open.get()


def is_change(message: Any) -> bool:
    """Whether this message of `protocol.messages` would change the cluster that it is sent to."""
    return message.API_KEY in CHANGES and not getattr(message, "validate_only", False)
