"""Faults of the copying of ACLs: what it makes and forgets, what it takes for its own, and what a promote gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from gateway.access import acl_round
from gateway.access.acl_round import AclRound, AclScene
from gateway.access.rules import changes as rules
from gateway.access.rules.order import AclStep, allows, denies
from gateway.access.rules.transform import Topics
from gateway.kafka.rules.acl import Acl
from gateway.state.acls.acl_records import AclState
from tests.simulation.mutations.lives import Event, EventKind, Fault, FaultKind, Operation, life, sought
from tests.simulation.mutations.patching import Mutation, Patching
from tests.simulation.plan import PLAIN


def remember_behind(patching: Patching) -> None:
    """An ACL is made first, and remembered afterwards."""
    create = AclRound._create

    async def forgetful(self: Any, acls: Sequence[Acl], scene: AclScene) -> None:
        every = {**scene.remembered, **dict.fromkeys(acls, AclState.MAKING)}
        await create(self, acls, replace(scene, remembered=every))

    patching.replace(AclRound, "_create", forgetful)


def take_for_ours(patching: Patching) -> None:
    """What is wanted and there already counts as made by the link."""
    wanted = rules._wanted

    def ours(there: bool, state: AclState | None) -> Any:
        found = wanted(there, state)
        return found._replace(stores=True, remember=AclState.MADE) if found.own else found

    patching.replace(rules, "_wanted", ours)


def stay_narrow(patching: Patching) -> None:
    """A promoted topic keeps the rights that it had before."""
    patching.replace(Topics, "are_free", lambda self, acl: False)
    patching.replace(acl_round, "settled_of", lambda records, link_id: frozenset())


def delete_whatever_was_made(patching: Patching) -> None:
    """An ALLOW is deleted whatever has become of the one that is to take its place."""
    patching.replace(acl_round, "allows_to_delete", lambda acls, not_made: AclStep(allows(acls), []))


def allow_whatever_is_denied(patching: Patching) -> None:
    """An ALLOW is made whatever has become of the DENY that is to take some of it away."""
    patching.replace(acl_round, "allows_to_make", lambda acls, not_made: AclStep(allows(acls), []))


def end_denials_whatever_is_allowed(patching: Patching) -> None:
    """A DENY is deleted whatever has become of the ALLOW that it keeps from having effect."""
    patching.replace(acl_round, "denies_to_delete", lambda acls, not_made, not_deleted: AclStep(denies(acls), []))


_REFUSED: Final = life(Operation.CREATE, Operation.CHANGE_ACLS, Operation.PROMOTE, pause_s=18.0)
_AGAIN: Final = life(Operation.CREATE, Operation.CHANGE_ACLS, Operation.CHANGE_ACLS, pause_s=18.0)
_CHANGED: Final = life(
    (Operation.CREATE, PLAIN), (Operation.CHANGE_ACLS, PLAIN), (Operation.CHANGE_ACLS, PLAIN), pause_s=2.0
)

MUTATIONS: Final[tuple[Mutation, ...]] = (
    sought(
        "an ACL is made before it is remembered",
        remember_behind,
        _CHANGED,
        runs=3,
        acls=True,
        events=[Event(EventKind.STATE_REFUSED, 1, "make", 0.0, 6.0)],
        faults=[Fault(FaultKind.LEADER_KILLED, 1, "make", 0.5)],
    ),
    sought("the target's own ACL counts as made", take_for_ours, _CHANGED, runs=2, acls=True),
    sought(
        "a promoted topic keeps the rights of a mirror",
        stay_narrow,
        life((Operation.CREATE, PLAIN), (Operation.PROMOTE, PLAIN)),
        runs=2,
        acls=True,
    ),
    sought(
        "hole A6: an ALLOW goes whatever became of its successor",
        delete_whatever_was_made,
        _REFUSED,
        runs=4,
        acls=True,
        events=[Event(EventKind.ACLS_REFUSED, 2, "", 0.0, 8.0)],
    ),
    sought(
        "hole A6: an ALLOW is made whatever became of the DENY",
        allow_whatever_is_denied,
        _REFUSED,
        runs=6,
        acls=True,
        events=[Event(EventKind.ACLS_REFUSED, 1, "", 0.0, 8.0)],
    ),
    sought(
        "hole A6: a DENY goes whatever became of the ALLOW",
        end_denials_whatever_is_allowed,
        _AGAIN,
        runs=4,
        acls=True,
        events=[Event(EventKind.ACLS_REFUSED, 2, "", 0.0, 8.0)],
    ),
)
