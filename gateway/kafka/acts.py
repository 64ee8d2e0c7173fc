"""The door for acts: every change of a cluster or a schema registry needs a permit, asked right before each try.

An act is decided from earlier facts: a record, a lease, a reading of both clusters. Between the decision and the
request, and between one try and the next, a promote may cut over, a link may be deleted, another gateway may lead. So a
permit is a function, not a flag. The deciding code opens the door with it (`permitted`), and the client calls it
(`require_permit`) right before the bytes of each try leave: in `Connection.request` for every request whose API is in
`CHANGES`, and in the registry's client. A refused act was never sent: the caller decides again.

    with permitted(still_the_record_that_was_decided_on):
        await access.alter_topic_configs(...)

A gateway runs `guarded`: without an open door it changes nothing. The permit belongs to the context (PEP 567), which
tasks inherit, so a request that is split by broker, or retried after a change of leaders, calls the same permit.
Processes that are no gateway (Spark jobs, `lockgate dev`) act only on their own behalf, and are not guarded.

The mirror's appends, the state topic's transactions and clients' forwarded writes are not acts in this sense: once
another gateway has taken over, the broker refuses them by producer id, epoch and sequence.
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
"""The APIs that change a cluster. Requests with `validate_only` need no permit."""

Permit: TypeAlias = Callable[[], None]
"""Raises ActRefused when the decision no longer holds. Does no I/O, so it takes no time."""


class ActRefused(NetError):
    """The door is shut: the facts behind the decision have changed. Nothing was sent; decide again."""


class RestRefused(PartitionErrors, ActRefused):
    """The door shut while an act went from broker to broker: part of it is done, see `partial`; the rest was not sent,
    or may be done (`errors`). Decide again."""


def _shut() -> None:
    raise ActRefused("this change was not decided on for a record, a term or a lease that still holds")


_open: Final[ContextVar[Permit | None]] = ContextVar("permit", default=None)


@contextmanager
def guarded() -> Iterator[None]:
    """A block in which clusters can only be changed with a permit."""
    token = _open.set(_shut)
    try:
        yield
    finally:
        _open.reset(token)


@contextmanager
def permitted(permit: Permit) -> Iterator[None]:
    """A block in which acts are sent as long as `permit` allows it. Only the innermost permit counts.

    Raises:
        ActRefused: the permit refuses now; nothing was begun.
    """
    permit()
    token = _open.set(permit)
    try:
        yield
    finally:
        _open.reset(token)


def own_act() -> AbstractContextManager[None]:
    """A block for acts on the gateway's own behalf, whether it leads or not: it creates the topics for its state,
    renews its lease in the fleet's group, or leaves the group. It touches no other record, topic or group."""
    return permitted(_granted)


def _granted() -> None:
    """Allows everything: such acts depend on no record, term or lease."""


def require_permit(what: str) -> None:
    """Call the permit, right before a change. `what` names the change, for the error.

    Raises:
        ActRefused: the change must not be sent.
    """
    permit = _open.get()
    if permit is None:
        return
    try:
        permit()
    except ActRefused as refused:
        raise ActRefused(f"{what} was not sent: {refused}") from refused


def current_permit() -> Permit | None:
    """The permit of this context; None if it is not guarded. For fakes of a cluster."""
    return _open.get()


def is_change(message: Any) -> bool:
    """Whether this message of `protocol.messages` would change the cluster that receives it."""
    return message.API_KEY in CHANGES and not getattr(message, "validate_only", False)
