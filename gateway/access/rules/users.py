"""Which SCRAM users of a source are missing on the target, and what each of them needs. Pure.

Theory of operation
-------------------
A cluster tells who has a SCRAM credential and of which mechanism, never the verifier (KIP-554). So a credential cannot
be copied; who is missing gets a new one, of the same mechanism and with as many iterations, made of a password that the
operator has. Users are named as on the target: by the link's mapping rules, as ACLs are.

What is on the target stays: a credential that is there is neither compared (it cannot be read) nor written again. A
user of the target who has a mechanism that the source's user of that name has not may be somebody else: he gets no
second password.

Nobody needs one who comes by a listener of the gateway with `identity: token`: the gateway knows him by certificate or
bearer token, and logs in at the target by delegation token. Where all listeners are so, that is everybody; else the
operator says who, by patterns.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.access.rules.transform import principal_on_target
from gateway.kafka.rules.scram import ScramKey, ScramMechanism, iterations_like

MOST_USERS: Final = 10_000
"""Credentials of a cluster that are looked at."""
_USER: Final = "User:"


class UserState(StrEnum):
    """Of one credential of the source. CREATED, NO_SECRET and REFUSED: what became of a MISSING one."""

    PRESENT = "PRESENT"
    MISSING = "MISSING"
    NOT_NEEDED = "NOT_NEEDED"
    PRINCIPAL_NOT_MAPPED = "PRINCIPAL_NOT_MAPPED"
    SAME_NAME = "SAME_NAME"
    OWN_NAME = "OWN_NAME"
    CREATED = "CREATED"
    NO_SECRET = "NO_SECRET"  # noqa: S105 - no secret
    REFUSED = "REFUSED"


@dataclass(frozen=True, slots=True)
class UserRow:
    """One credential. `target_user`: '' where it has no name there. `detail`: why, '' where the state says it all."""

    user: str
    target_user: str
    mechanism: ScramMechanism
    iterations: int
    state: UserState
    detail: str = ""

    @property
    def key(self) -> ScramKey:
        """The credential on the target."""
        return ScramKey(self.target_user, self.mechanism)

    def became(self, state: UserState, detail: str = "") -> UserRow:
        """What came of it."""
        return UserRow(self.user, self.target_user, self.mechanism, self.iterations, state, detail)


@dataclass(frozen=True, slots=True)
class ClientIdentities:
    """How clients come to the target.

    `own`: the gateway's login at the target, '' without one. `by_token`: names of listeners with `identity: token`,
    `relayed`: of the others. `without`: patterns (`*`, `?`) of users, as the source knows them, that come by the first.
    """

    own: str = ""
    by_token: tuple[str, ...] = ()
    relayed: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def all_by_token(self) -> bool:
        """No client of the gateway logs in at the target itself."""
        return bool(self.by_token) and not self.relayed

    def needs_none(self, user: str) -> bool:
        """Whether the user comes without a credential."""
        return self.all_by_token or any(fnmatch.fnmatchcase(user, pattern) for pattern in self.without)


class TooManyUsers(ValueError):
    """A cluster has more credentials than `MOST_USERS`. One line."""


def plan_users(
    source: Mapping[ScramKey, int], target: Collection[ScramKey], mapping_rules: str, identities: ClientIdentities
) -> list[UserRow]:
    """A row for each credential of the source, by name.

    Args:
        source: with iterations.
        mapping_rules: of the link, `acl.sync.principal.mapping.rules`.

    Raises:
        TooManyUsers: on either side.
    """
    for where, found in (("source", source), ("target", target)):
        if len(found) > MOST_USERS:
            raise TooManyUsers(f"the {where} has {len(found)} SCRAM credentials; {MOST_USERS} are possible")
    named = {user: _on_target(user, mapping_rules) for user in {key.user for key in source}}
    often = Counter((named[key.user], key.mechanism) for key in source if named[key.user])
    own = {ScramKey(named[key.user], key.mechanism) for key in source}
    strangers = {key.user: key.mechanism for key in sorted(target) if key not in own}
    rows = []
    for key in sorted(source):
        name = named[key.user]
        on_target = ScramKey(name, key.mechanism)
        state, detail = _state(key, on_target, on_target in target, often[name, key.mechanism], identities)
        if state is UserState.MISSING and name in strangers:
            state = UserState.SAME_NAME
            detail = f"the target has a user {name} by {strangers[name]}, who may be somebody else"
        rows.append(UserRow(key.user, name, key.mechanism, iterations_like(source[key]), state, detail))
    return rows


def _on_target(user: str, mapping_rules: str) -> str:
    """'' for none, or one that is no user."""
    found = principal_on_target(_USER + user, mapping_rules)
    return found.removeprefix(_USER) if found and found.startswith(_USER) else ""


def _state(
    key: ScramKey, named: ScramKey, there: bool, often: int, identities: ClientIdentities
) -> tuple[UserState, str]:
    if not named.user:
        return UserState.PRINCIPAL_NOT_MAPPED, "no rule of acl.sync.principal.mapping.rules gives it a user's name"
    if there:
        return UserState.PRESENT, ""
    if named.user == identities.own:
        return UserState.OWN_NAME, "the gateway logs in at the target by this name: who has it has the gateway's rights"
    if identities.needs_none(key.user):
        return UserState.NOT_NEEDED, "it comes to the gateway by certificate or bearer token (identity: token)"
    if often > 1:
        return UserState.SAME_NAME, f"{often} users of the source are {named.user} on the target"
    return UserState.MISSING, ""


def in_requests(keys: Sequence[ScramKey], at_most: int) -> list[list[ScramKey]]:
    """In order, so that a user stands in a request once, which is all that a broker takes."""
    found: list[list[ScramKey]] = []
    for mechanism in ScramMechanism:
        some = [key for key in keys if key.mechanism is mechanism]
        found += [some[first : first + at_most] for first in range(0, len(some), at_most)]
    return found


def notes(identities: ClientIdentities) -> list[str]:
    """What counts beside the rows."""
    found = []
    if identities.by_token and identities.relayed:
        found.append(
            f"clients of {', '.join(identities.by_token)} need no credential on the target (identity: token); "
            f"those of {', '.join(identities.relayed)} do"
        )
    if identities.without and not identities.by_token:
        found.append("no listener of this gateway has identity: token: whoever is said to need none cannot come in")
    return found
