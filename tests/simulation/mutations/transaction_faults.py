"""What ends a transaction that its client has not asked to end: the ways there were for an abort to come too late; and
what begins one where it has no place any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from gateway.kafka.connection.pipelined import PipelinedConnection
from gateway.proxy.rules.transactional_ids import OWN
from gateway.proxy.rules.transactional_producers import TransactionalProducer
from gateway.proxy.session.sides import TransportWire
from gateway.proxy.transactions import coordinator_calls, coordinators
from gateway.proxy.transactions.adding import TransactionAdding
from tests.simulation.mutations.lives import Event, EventKind, Operation, brief, life, sought
from tests.simulation.mutations.patching import Mutation, Patching
from tests.simulation.plan import SET

_CREATE: Final = Operation.CREATE


def go_on_for_a_client_that_has_gone(patching: Patching) -> None:
    """What was begun for a client goes on when its connection has ended."""

    def for_client(session: Any, work: Any) -> None:
        session.context.spawn(session.context.loop.create_task(work))

    patching.replace(coordinator_calls, "for_client", for_client)


def leave_on_its_way(patching: Patching) -> None:
    """What has been sent for a client that has gone is left on its way."""
    patching.replace(coordinators, "_abandon", lambda connection, message: None)


def close_only(patching: Patching) -> None:
    """Its connection closes, as programs close sockets: the kernel goes on sending."""
    patching.replace(PipelinedConnection, "take_back", lambda self, reason: self.close(reason))


def confirm_by_an_older_one(patching: Patching) -> None:
    """As `go_on_for_a_client_that_has_gone`; and then any committed transaction confirms its client's commit."""

    def end_place(self: Any, *, commit: bool) -> Any:
        known = self.open or self.last
        if known is not None:
            return known.side
        return next((side for side, committed in self.completed.items() if committed is commit), OWN)

    go_on_for_a_client_that_has_gone(patching)
    patching.replace(TransactionalProducer, "end_place", end_place)


def decide_once(patching: Patching) -> None:
    """What was decided for a request counts until it is sent, whatever has begun meanwhile."""

    @contextmanager
    def begun(self: Any, producer: Any, side: Any, wanted: Any) -> Iterator[bool]:
        opened = producer.begin(side, set(wanted(producer)), self._clock())
        with coordinator_calls.in_transit(producer):
            yield opened

    patching.replace(TransactionAdding, "begun", begun)


def pass_on_for_good(patching: Patching) -> None:
    """The connection by which a client's request was passed on closes as it always does."""
    patching.replace(TransportWire, "take_back", lambda self: self.close())


_BOTH: Final = ((_CREATE, SET[:1]), (_CREATE, SET[1:]))
_ONCE: Final = life(*_BOTH, Operation.REBALANCE, Operation.REBALANCE, pause_s=2.0)
_BACK: Final = life(
    *_BOTH, Operation.PROMOTE_SET, (Operation.REVERSE, SET), Operation.FAILBACK_SET, Operation.REBALANCE, pause_s=2.0
)


_AGAIN: Final = life(  # and a topic that is not promoted: else the client's abort is passed on to the target, unseen
    _CREATE,
    *_BOTH,
    Operation.PROMOTE_SET,
    (Operation.REVERSE, SET),
    Operation.FAILBACK_SET,
    Operation.PROMOTE_SET,
    (Operation.REVERSE, SET),
    pause_s=0.1,
)


_PROMOTED: Final = life(  # and a topic that is not: where all are promoted, bytes are passed on unseen
    _CREATE, *_BOTH, Operation.PROMOTE_SET, Operation.REBALANCE, Operation.REBALANCE, Operation.REBALANCE, pause_s=2.0
)


def _late(name: str, patch: Any, kind: EventKind) -> Mutation:
    events = [Event(kind, act, "", 0.5, 3.0) for act in (2, 3)]
    return sought(name, patch, _ONCE, runs=3, in_order=True, events=events)


MUTATIONS: Final = (
    sought(
        "past: a transaction begins by what was decided before a write pause",
        decide_once,
        _AGAIN,
        runs=12,
        events=[Event(EventKind.IDENTITY_LATE, 5, "", 0.0, 0.3)],
    ),
    _late("past: a gateway goes on for a client that has gone", go_on_for_a_client_that_has_gone, EventKind.END_HELD),
    _late("past: what a client has given up is left on its way", leave_on_its_way, EventKind.END_ON_ITS_WAY),
    _late("a socket that closes goes on sending", close_only, EventKind.END_ON_ITS_WAY),
    sought(
        "what was passed on to the target arrives when its client has gone",
        pass_on_for_good,
        _PROMOTED,
        runs=8,
        in_order=True,
        events=[Event(EventKind.END_PASSED_ON, act, "", 0.5, 3.0) for act in (4, 5, 6)],
    ),
    Mutation(
        "past: a commit is confirmed by an older transaction",
        confirm_by_an_older_one,
        tuple(brief(_BACK, seed=seed, events=[Event(EventKind.END_HELD, 5, "", 0.5, 3.0)]) for seed in range(1, 5)),
    ),
)
