"""Where the shipped operations are in their course: tells each step they take, at the moment before it is taken.

Promotes, failbacks, failovers, group promotes and demotes ask a pure resolver for each step, so one wrapper around the
resolver tells all of them. Operations without a resolver (create, leaving) are told by the calls of which they are
made, and so are a failover's beginning, before which a promote is ended, and a cutover's publishing: a step of its
own it is only after a store whose outcome was unknown.
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
    ("gateway.cutover.promote.run", "next_step", "promote"),
    ("gateway.cutover.failback.run", "next_step", "back"),
    ("gateway.cutover.failover.run", "next_step", "failover"),
    ("gateway.groups.promote", "next_step", "group"),
    ("gateway.groups.demote", "next_step", "demote"),
)

_CALLS: Final = (
    ("gateway.topics.create", "MirrorCreator.create", "create", "begin"),
    ("gateway.operations.net_access", "NetAccess.list_topics", "auto", "list_topics"),
    ("gateway.topics.create", "MirrorCreator._begin", "create", "intent"),
    ("gateway.fleet.quorum", "FleetQuorum.read_by_all", "create", "read_by_all"),
    ("gateway.operations.net_access", "NetAccess.create_topic", "create", "create_topic"),
    ("gateway.topics.create", "MirrorCreator._store", "create", "store"),
    ("gateway.cutover.promote.run", "PromoteRun._publish_switched", "promote", "publish_switched"),
    ("gateway.cutover.failover.operations", "Failover.run", "failover", "begin"),
    ("gateway.links.links", "Links.delete", "link", "delete_link"),
    ("gateway.links.links", "Links._store", "link", "create_link"),
    ("gateway.topics.delete", "MirrorDeletion.delete", "unmirror", "delete_mirror"),
    ("gateway.topics.delete", "MirrorDeletion._carry_out", "unmirror", "carry_out"),
    ("gateway.topics.delete", "MirrorDeletion._delete_topic", "unmirror", "delete_topic"),
    ("gateway.links.update", "LinkUpdates._tried", "update", "try"),
    ("gateway.links.update", "LinkUpdates._store", "update", "store"),
    ("gateway.mirror.engine.engine", "Engine.update_link", "update", "apply"),
    ("gateway.topics.repair", "MirrorRepair.plan", "repair", "plan"),
    ("gateway.topics.repair", "MirrorRepair._resume", "repair", "resume"),
    ("gateway.topics.create", "MirrorCreator.recreate", "repair", "recreate"),
    ("gateway.topics.create", "MirrorCreator._delete_replaced", "repair", "delete_replaced"),
    ("gateway.access.acl_round", "AclRound.look", "acls", "look"),
    ("gateway.access.acl_round", "AclRound._write", "acls", "remember"),
    ("gateway.access.acl_round", "AclRound._create", "acls", "make"),
    ("gateway.access.acl_round", "AclRound._delete", "acls", "take"),
    ("gateway.access.acl_round", "AclRound._settle", "acls", "settle"),
    ("gateway.runtime.peering", "Peering.close", "leave", "begin"),
    ("gateway.fleet.mirrors", "FleetMirrors.leave", "leave", "leave"),
    ("gateway.runtime.peering", "Peering._say_goodbye", "leave", "goodbye"),
    ("gateway.fleet.fleet", "Fleet.close", "leave", "close"),
    ("gateway.fleet.group", "FleetGroup._join", "rebalance", "begin"),
    ("gateway.fleet.group", "FleetGroup._sync", "rebalance", "assign"),
    ("gateway.runtime.peering", "Peering._admitted", "rebalance", "assigned"),
    ("gateway.fleet.releases", "Releases._give", "rebalance", "release"),
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
