"""SCRAM users of a link's source that the target lacks: shown, and made with new secrets.

What is missing is decided in `rules/users.py`. A secret is read where it is used, one at a time: from a file or an
environment variable of this gateway, as a link's own (`operations/secrets/`), or it comes salted already, from whoever
asks. It is salted in a thread, sent to the target, and kept nowhere.

Asked again after anything, `apply` makes what is missing then: credentials that are there are left alone.

What else a cluster has that a migration does not carry over is read part by part; what cannot be read is said.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog

from gateway.access.rules.not_copied import NOTICED, ClusterSettings, NotCopied, NotCopiedKind, not_copied
from gateway.access.rules.users import (
    ClientIdentities,
    TooManyUsers,
    UserRow,
    UserState,
    in_requests,
    notes,
    plan_users,
)
from gateway.errors import BadRequest, Conflict
from gateway.kafka.access.scram_users import IN_A_REQUEST
from gateway.kafka.connection.errors import NetError
from gateway.kafka.rules.scram import SALT_BYTES, ScramCredential, ScramKey, salted
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.door import Door
from gateway.operations.records import Records
from gateway.operations.secrets.link_secrets import LinkSecrets
from gateway.operations.secrets.rules.references import for_name
from gateway.operations.sources import SourcesForViews
from gateway.state.link_config import parse
from gateway.state.records import LinkRecord
from gateway.transport.locks import KeyedLocks

T = TypeVar("T")


async def look_at_settings(access: ClusterAccess) -> ClusterSettings:
    """As far as this principal may see them: each part needs a right of its own."""
    unknown: dict[NotCopiedKind, str] = {}

    async def read(kind: NotCopiedKind, question: Callable[[], Awaitable[Mapping[str, T]]]) -> Mapping[str, T]:
        try:
            return await question()
        except (NetError, TimeoutError, OSError) as exc:
            unknown[kind] = str(exc) or type(exc).__name__
            return {}

    owners = await read(NotCopiedKind.DELEGATION_TOKENS, access.token_owners)
    features = await read(NotCopiedKind.FEATURE_LEVEL, access.feature_levels)
    configs = await read(NotCopiedKind.BROKER_DEFAULT, access.broker_configs)
    defaults = {name: configs[name] for name in NOTICED if name in configs}
    return ClusterSettings(owners, features, defaults, unknown)


_log = structlog.get_logger("lockgate.control")


@dataclass(frozen=True, slots=True)
class UserPlan:
    """`rows`: a credential of the source each. `not_copied`: what else clients may miss. `notes`: what counts, too."""

    rows: Sequence[UserRow]
    not_copied: Sequence[NotCopied]
    notes: Sequence[str]

    def count(self, state: UserState) -> int:
        """Rows in this state."""
        return sum(row.state is state for row in self.rows)


@dataclass(frozen=True, slots=True)
class NewSecrets:
    """Where passwords come from. `template`: a reference with `*` for the user's name as the source knows it, '' for
    none. `salted`: credentials that were salted where the password is, by user of the source and mechanism; these
    count first."""

    template: str = ""
    salted: Mapping[ScramKey, ScramCredential] | None = None


class Users:
    """Of all links."""

    def __init__(
        self,
        *,
        records: Records,
        views: SourcesForViews,
        target: ClusterAccess,
        secrets_of: LinkSecrets,
        locks: KeyedLocks,
        door: Door,
        identities: ClientIdentities,
    ) -> None:
        """`identities`: as the listeners of this gateway say; `own` and `without` are filled in here."""
        self._records = records
        self._views = views
        self._target = target
        self._secrets = secrets_of
        self._locks = locks
        self._door = door
        self._identities = identities

    async def plan(self, name: str, without: Collection[str] = ()) -> UserPlan:
        """Who has a SCRAM credential on the source, and what becomes of it. Nothing is changed.

        Args:
            without: patterns of users that come by `identity: token`.

        Raises:
            NotFound: no such link.
            SourceUnreachable, TargetUnreachable, Conflict: a cluster does not answer, or refuses, or has too many.
        """
        link = self._records.link(name)
        source = await self._views.reach(link)
        rows, identities = await self._rows(name, source, without)
        settings = [await look_at_settings(access) for access in (source, self._target)]
        return UserPlan(rows, not_copied(*settings), notes(identities))

    async def apply(
        self,
        name: str,
        new: NewSecrets,
        *,
        users: Collection[str] = (),
        without: Collection[str] = (),
        validate_only: bool = False,
    ) -> UserPlan:
        """Make what is missing; what has no secret, or is refused, is told and holds no other up.

        Args:
            users: only these, as the source knows them; all by default.
            validate_only: secrets are read, and nothing is sent.

        Raises:
            BadRequest: a bad template, or a user that the source does not have.
            NotFound, SourceUnreachable, TargetUnreachable, Conflict: as `plan`. With TargetUnreachable some may have
                been made: ask again.
        """
        link = self._records.link(name)
        if new.template:
            _require_template(new.template)
        async with self._locks.hold(f"users/{name}"):
            source = await self._views.reach(link)
            rows, identities = await self._rows(name, source, without)
            unknown = sorted(set(users) - {row.user for row in rows})
            if unknown:
                raise BadRequest(f"the source of link '{name}' has no SCRAM user {unknown[0]!r}")
            wanted = {
                row.key: row for row in rows if row.state is UserState.MISSING and (not users or row.user in users)
            }
            done = await self._make(link, wanted, new, validate_only=validate_only)
        found = [done.get(row.key, row) if row.state is UserState.MISSING else row for row in rows]
        return UserPlan(found, (), notes(identities))

    async def _rows(
        self, name: str, source: ClusterAccess, without: Collection[str]
    ) -> tuple[list[UserRow], ClientIdentities]:
        with source_errors(name):
            there = await source.scram_users()
        with target_errors():
            present = await self._target.scram_users()
        identities = replace(self._identities, own=self._target.login_name(), without=tuple(without))
        rules = parse(self._records.link(name).configs).acl_principals
        try:
            return plan_users(there, frozenset(present), rules, identities), identities
        except TooManyUsers as exc:
            raise Conflict(f"link '{name}': {exc}") from exc

    async def _make(
        self, link: LinkRecord, wanted: Mapping[ScramKey, UserRow], new: NewSecrets, *, validate_only: bool
    ) -> Mapping[ScramKey, UserRow]:
        done: dict[ScramKey, UserRow] = {}
        for keys in in_requests(list(wanted), IN_A_REQUEST):
            credentials = []
            for key in keys:
                row = wanted[key]
                try:
                    credentials.append(await self._credential(link.name, row, new))
                except ValueError as exc:
                    done[key] = row.became(UserState.NO_SECRET, str(exc))
            if validate_only or not credentials:
                continue
            with target_errors():  # salting took its time, and a request would replace what somebody has made since
                present = await self._target.scram_users()
            done |= {key: wanted[key].became(UserState.PRESENT) for key in keys if key in present}
            credentials = [one for one in credentials if one.key not in present]
            if not credentials:
                continue
            with target_errors(), self._door.permit(link):
                refused = await self._target.create_scram_users(credentials)
            for one in credentials:
                error = refused.get(one.key)
                row = wanted[one.key]
                done[one.key] = (
                    row.became(UserState.CREATED) if error is None else row.became(UserState.REFUSED, str(error))
                )
        counts = Counter(row.state for row in done.values())
        if counts:
            _log.info("SCRAM users", link=link.name, **{state.value.lower(): many for state, many in counts.items()})
        return done

    async def _credential(self, link: str, row: UserRow, new: NewSecrets) -> ScramCredential:
        """Raises ValueError: there is no secret for it."""
        given = (new.salted or {}).get(ScramKey(row.user, row.mechanism))
        if given is not None:
            return replace(given, key=row.key)
        if not new.template:
            raise ValueError("no secret was given for it")
        # a file is read and hashed: neither is for the event loop
        return await asyncio.to_thread(self._salted, link, row, new.template)

    def _salted(self, link: str, row: UserRow, template: str) -> ScramCredential:
        password = self._secrets.of_user(link, template, row.user)
        return salted(row.key, row.iterations, secrets.token_bytes(SALT_BYTES), password)


def _require_template(template: str) -> None:
    try:
        for_name(template, "x")
    except ValueError as exc:
        raise BadRequest(f"secrets: {exc}") from exc
