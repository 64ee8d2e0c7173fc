"""Who of the gateway does something for somebody who has not shown yet who it is.

Before a login nothing may be intercepted, counted, remembered or asked of a source. What does these things are the
classes below: each of their functions is wrapped, and tells when it is called in a context that a stranger's bytes have
begun (`loop.CAUSE`). Some keep what they know in maps, too: `remembered` is what stands in those, to be compared where
nobody but strangers took part.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Final

from gateway.fleet.peer_progress import PeerProgress
from gateway.groups.gate.fleet import FleetGates
from gateway.groups.gate.rules.gates import GroupGates
from gateway.groups.monitor import GroupMonitor
from gateway.kafka.cluster import Cluster
from gateway.mirror.rules.progress import MirrorProgress
from gateway.operations.net_access import NetAccess
from gateway.operations.sources import Sources
from gateway.proxy.produce.counted_writes import CountedWrites
from gateway.proxy.produce.forwarded_produce import SourceWrites
from gateway.proxy.produce.forwarder import Forwarder
from gateway.proxy.rules.waiters import WaiterCounts
from gateway.proxy.transactions.adding import TransactionAdding
from gateway.proxy.transactions.coordinators import TransactionCoordinators
from gateway.proxy.transactions.group_sides import GroupSides
from gateway.proxy.transactions.identities import Identities
from gateway.proxy.transactions.placement import TopicPlacements
from gateway.proxy.transactions.transactions import Transactions
from gateway.state.store import StateStore
from gateway.topics.source_topics import UnmirroredTopics
from protocol.apis import ApiKey
from tests.fuzz.loop import CAUSE
from tests.fuzz.stage import Stage

WATCHED: Final = (
    Cluster,
    CountedWrites,
    FleetGates,
    Forwarder,
    GroupGates,
    GroupMonitor,
    GroupSides,
    Identities,
    MirrorProgress,
    NetAccess,
    PeerProgress,
    SourceWrites,
    Sources,
    StateStore,
    TopicPlacements,
    TransactionAdding,
    TransactionCoordinators,
    Transactions,
    UnmirroredTopics,
    WaiterCounts,
)
_OF_A_LOGIN: Final = frozenset((ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))


@contextmanager
def spying() -> Iterator[None]:
    """All functions of the watched classes tell of strangers, in this block."""
    before = [(owner, name, value) for owner in WATCHED for name, value in vars(owner).items() if _counts(name, value)]
    for owner, name, value in before:
        setattr(owner, name, _telling(f"{owner.__name__}.{name}", value))
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def _counts(name: str, value: Any) -> bool:
    return isinstance(value, FunctionType) and not name.startswith("__")


def _telling(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def tell() -> None:
        cause = CAUSE.get()
        if cause is not None and not cause.accepted:
            cause.touched.append(name)

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **named: Any) -> Any:
            tell()
            return await function(*args, **named)

        return awaited

    @functools.wraps(function)
    def called(*args: Any, **named: Any) -> Any:
        tell()
        return function(*args, **named)

    return called


def remembered(stage: Stage) -> dict[str, Any]:
    """What the data plane knows of its clients, by where it stands."""
    gateway = stage.node.gateway
    sessions, gates = stage.sessions, gateway._gates
    found: dict[str, Any] = {f"GroupGates.{name}": _shown(getattr(gates, name)) for name in _MAPS}
    found["requests"] = [one.api_key for one in sessions.stats.snapshot() if one.api_key not in _OF_A_LOGIN]
    found["unanswered writes"] = sessions.stats.last_unanswered
    found["rights"] = dict(sessions.rights._said)
    found["waiters"] = dict(sessions.waiters._of)
    found["writes in flight"] = dict(gateway._data.forwarder._in_flight)
    found["principals"] = sorted(session.principal for session in sessions.open if session.principal)
    found["rights of sessions"] = [bool(session.authorized or session.group_rights) for session in sessions.open].count(
        True
    )
    found["mirrors"] = sorted((key, record.state.value) for key, record in gateway._store.mirrors.items())
    found["groups"] = sorted((key, record.state.value) for key, record in gateway._store.groups.items())
    return found


_MAPS: Final = ("_let_in", "_held", "_waiters", "_commits", "_answered", "_known", "_elsewhere")


def _shown(value: Any) -> Any:
    return sorted(value) if isinstance(value, set) else list(value)
