"""Where the shipped operations are in their course: tells each step they take, at the moment before it is taken.

Promotes, failbacks and group promotes ask a pure resolver for each step, so one wrapper around the resolver tells all
of them. Operations without a resolver (create, failover, demote, leaving) are told by the calls of which they are made,
and so is a flip's publishing: a step of its own it is only after a store whose outcome was unknown.
Nothing of the product is changed but for the wrapper: what is wrapped is called with the same arguments, and its answer
is passed on.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

Tell = Callable[[str, str], None]
"""(family of operations, step)."""

_RESOLVERS: Final = (
    ("gateway.control.promote_run", "next_step", "promote"),
    ("gateway.control.way_back_run", "next_step", "back"),
    ("gateway.control.promote_group", "next_step", "group"),
)

_CALLS: Final = (
    ("gateway.control.mirror_create", "MirrorCreator.create", "create", "begin"),
    ("gateway.control.mirror_create", "MirrorCreator._begin", "create", "intent"),
    ("gateway.control.fleet_quorum", "FleetQuorum.read_by_all", "create", "read_by_all"),
    ("gateway.control.net_access", "NetAccess.create_topic", "create", "create_topic"),
    ("gateway.control.mirror_create", "MirrorCreator._store", "create", "store"),
    ("gateway.control.promote_run", "PromoteRun._publish_switched", "promote", "publish_switched"),
    ("gateway.control.failover", "Failover.run", "failover", "begin"),
    ("gateway.control.failover", "Failover._hold_everywhere", "failover", "hold"),
    ("gateway.control.failover", "Failover._drain", "failover", "drain"),
    ("gateway.control.measure", "Measure.stop", "failover", "stop_mirror"),
    ("gateway.control.net_access", "NetAccess.log_ranges", "failover", "log_ranges"),
    ("gateway.control.failover", "Failover._persist", "failover", "persist"),
    ("gateway.control.failover", "Failover._after", "failover", "after"),
    ("gateway.control.promote_group", "demote_group", "demote", "begin"),  # where it is called
    ("gateway.control.demote_group", "_answered", "demote", "answered"),
    ("gateway.control.demote_group", "_carry_back", "demote", "carry_back"),
    ("gateway.control.demote_group", "_mark_active", "demote", "mark_active"),
    ("gateway.control.fleet_quorum", "FleetQuorum.close_gate", "demote", "close_gate"),
    ("gateway.app.peering", "Peering.close", "leave", "begin"),
    ("gateway.control.fleet_mirrors", "FleetMirrors.leave", "leave", "leave"),
    ("gateway.app.peering", "Peering._say_goodbye", "leave", "goodbye"),
    ("gateway.control.fleet", "Fleet.close", "leave", "close"),
    ("gateway.control.fleet_group", "FleetGroup._join", "rebalance", "begin"),
    ("gateway.control.fleet_group", "FleetGroup._sync", "rebalance", "assign"),
    ("gateway.app.peering", "Peering._admitted", "rebalance", "assigned"),
    ("gateway.control.releases", "Releases._give", "rebalance", "release"),
)


@contextmanager
def watched(tell: Tell) -> Iterator[None]:
    """Tell every step while the block runs.

    Raises:
        AttributeError: the product has no such place any more: this table is to be kept as the code is.
    """
    with ExitStack() as undo:
        for module, name, family in _RESOLVERS:
            _wrap(undo, module, name, functools.partial(_resolving, tell, family))
        for module, name, family, step in _CALLS:
            _wrap(undo, module, name, functools.partial(_calling, tell, family, step))
        yield


def _wrap(undo: ExitStack, module: str, path: str, wrapper: Callable[[Any], Any]) -> None:
    holder: Any = importlib.import_module(module)
    *owners, name = path.split(".")
    for owner in owners:
        holder = getattr(holder, owner)
    before = getattr(holder, name)
    setattr(holder, name, wrapper(before))
    undo.callback(setattr, holder, name, before)


def _resolving(tell: Tell, family: str, decide: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(decide)
    def told(*args: Any, **named: Any) -> Any:
        step = decide(*args, **named)
        tell(family, step.kind.value)
        return step

    return told


def _calling(tell: Tell, family: str, step: str, call: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(call):

        @functools.wraps(call)
        async def awaited(*args: Any, **named: Any) -> Any:
            tell(family, step)
            return await call(*args, **named)

        return awaited

    @functools.wraps(call)
    def called(*args: Any, **named: Any) -> Any:
        tell(family, step)
        return call(*args, **named)

    return called
