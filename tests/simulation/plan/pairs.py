"""The steps at which a fault can strike each operation, and so every pair of step and fault: known before any run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.simulation.plan.kinds import FaultKind, Operation

_PROMOTE: Final = (
    "mark_pending",
    "pause_writes",
    "read_ends",
    "stop_mirror",
    "read_copy",
    "persist_stopped",
    "publish_switched",
    "restore_configs",
)
_BACK: Final = ("read_source", "keep", "prepare", "synchronized", "start", "begin")

STEPS: Final[Mapping[Operation, tuple[str, ...]]] = {
    Operation.CREATE: ("begin", "intent", "read_by_all", "create_topic", "store"),
    Operation.GROUP_PROMOTE: (
        "mark_pending",
        "read_offsets",
        "commit",
        "read_back",
        "mark_promoted",
    ),
    Operation.PROMOTE: _PROMOTE,
    Operation.PROMOTE_SET: _PROMOTE,
    Operation.REVERSE: _BACK,
    Operation.FAILBACK: (*_PROMOTE[:-1], "restore_configs", "keep", "prepare", "start", "begin"),
    Operation.FAILBACK_SET: (*_PROMOTE[:-1], "restore_configs", "keep", "prepare", "start", "begin"),
    Operation.DEMOTE: (
        "check_target",
        "close_gate",
        "await_commits",
        "check_members",
        "read_offsets",
        "commit",
        "mark_active",
        "open_gate",
    ),
    Operation.FAILOVER: (
        "begin",
        "read_source",
        "pause_writes",
        "drain",
        "read_last",
        "stop_mirror",
        "read_copy",
        "persist",
        "release",
        "restore_configs",
        "tell_groups",
    ),
    Operation.RESTORE: ("read_source", "keep", "delete", "create", "prepare", "recreated", "start", "begin"),
    Operation.REBALANCE: ("begin", "assign", "assigned", "release"),
    Operation.RESTART: ("begin", "leave", "goodbye", "close"),
    Operation.PROMOTE_GIVEN_UP: ("resume_writes", "mark_active"),
    Operation.GROUP_GIVEN_UP: ("mark_active",),
    Operation.REVERSE_GIVEN_UP: ("abort",),
    Operation.RESTORE_GIVEN_UP: ("fail",),
}
"""Operation -> the steps at which a fault can strike, by the names that `faults/steps.py` tells them by.

Not among them: `wait`, `await_mirror` and `done`, at which nothing is done; those of `MORE_STEPS`; `check_members` of a
group promote, which is for a look at the members at the very instant of the reading of offsets, and between the two a
request has passed here; a gate's opening, which the record of `mark_promoted` brings along.
"""

_JOIN: Final = ("create_link", "begin", "intent", "read_by_all", "create_topic", "store")
MORE_STEPS: Final[Mapping[Operation, tuple[str, ...]]] = {
    Operation.FAILOVER: ("settle", "take_back"),
    Operation.DEMOTE: ("settle",),
    Operation.RELINK: ("delete_link", "create_link"),
    Operation.UNMIRROR: ("delete_mirror", "carry_out", "delete_topic"),
    Operation.UPDATE_LINK: ("try", "store", "apply"),
    Operation.AUTO_CREATE: ("list_topics", "begin", "intent", "read_by_all", "create_topic", "store"),
    Operation.PROMOTE: ("read_configs", "sync_acls"),
    Operation.PROMOTE_SET: ("sync_acls",),
    Operation.FAILBACK: ("sync_acls",),
    Operation.CHANGE_ACLS: ("look", "remember", "make", "take", "settle"),
    Operation.REPAIR: (
        "plan",
        "resume",
        "recreate",
        "delete_replaced",
        "intent",
        "read_by_all",
        "create_topic",
        "store",
    ),
    Operation.AGGREGATE: _JOIN,
    Operation.CHAIN: _JOIN,
    Operation.FAN_OUT: _JOIN,
    Operation.BOTH_WAYS: _JOIN,
    Operation.PROMOTE_JOINED: _PROMOTE,
    Operation.REHEARSE: (
        "mark_pending",
        "read_configs",
        "pause_writes",
        "read_ends",
        "stop_mirror",
        "read_copy",
        "resume_writes",
        "mark_active",
    ),
}
"""Steps of the runs from FURTHER_FROM on (`further.py`). `settle` and `take_back` are taken only where a change of the
state is refused, or not known to be made, for which these runs have an event.
"""

BUILT_FIRST: Final = (Operation.AGGREGATE, Operation.CHAIN, Operation.FAN_OUT, Operation.BOTH_WAYS)
"""Operations that put clusters and gateways together before they begin."""
JOINED: Final = (*BUILT_FIRST, Operation.PROMOTE_JOINED)
"""Operations of other links than the run's own, or of another fleet."""

Pair = tuple[Operation, str, FaultKind]

MORE_PAIRS: Final[tuple[Pair, ...]] = tuple(
    (operation, step, fault) for operation, steps in MORE_STEPS.items() for step in steps for fault in FaultKind
)
"""Those of `MORE_STEPS`, counted beside the others."""
PAIRS: Final[tuple[Pair, ...]] = tuple(
    (operation, step, fault) for operation, steps in STEPS.items() for step in steps for fault in FaultKind
)
"""Every step x fault pair."""
