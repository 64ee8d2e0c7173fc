"""Changes a link while it runs: its credentials, its servers, its options; pauses it, and has it go on.

    decide what the link would be -> try it against its source -> store it -> go on so, on every gateway

What can be wrong with new credentials is found before they are stored. The record is the one step: whoever leads next
goes on by it, and so does every gateway as it reads it (`operations/replica.py`, `operations/sources.py`). What is in
flight is answered first, on the connections on which it was sent (`kafka/connection/pool.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from gateway.close_names import did_you_mean
from gateway.errors import BadRequest, Conflict, SourceUnreachable
from gateway.kafka.connection.errors import AuthenticationFailed
from gateway.kafka.connection.properties import PROPERTIES
from gateway.links.checks import LinkChecks
from gateway.links.links import Links, LinkView
from gateway.links.rules.update import (
    PAUSED,
    Altered,
    ConfigChange,
    ConfigOperation,
    altered,
    why_ids_stay,
    why_not_paused,
)
from gateway.mirror.interface import MirrorEngine
from gateway.operations.fleet_wide import FleetWide
from gateway.operations.records import Records
from gateway.operations.secrets.link_secrets import flattened
from gateway.operations.sources import Sources
from gateway.state.link_config import OPTION_NAMES, parse
from gateway.state.records import LinkRecord, MirrorRecord
from gateway.state.schemas.registry_properties import REGISTRY_PROPERTIES
from gateway.transport.locks import KeyedLocks

_JAAS: Final = "sasl.jaas.config"
_log = structlog.get_logger("lockgate.control")


class LinkUpdates:
    """Of one term."""

    def __init__(
        self,
        *,
        records: Records,
        sources: Sources,
        engine: MirrorEngine,
        fleet: FleetWide,
        locks: KeyedLocks,
        checks: LinkChecks,
        links: Links,
    ) -> None:
        self._records = records
        self._sources = sources
        self._engine = engine
        self._fleet = fleet
        self._locks = locks
        self._checks = checks
        self._links = links

    async def alter(self, name: str, changes: Sequence[ConfigChange], *, validate_only: bool = False) -> LinkView:
        """Change configs of a link, all or none. Returns when every gateway goes by them.

        Raises:
            NotFound: no such link.
            BadRequest: a change cannot be; names the config, with the reason.
            Conflict: the link cannot be paused now, or was changed meanwhile.
            SourceUnreachable: the source does not answer, does not take the credentials, or is another cluster.
        """
        if not changes:
            raise BadRequest("configs: nothing is to be changed")
        self._records.link(name)
        async with self._locks.hold(f"link/{name}"):
            old = self._records.link(name)
            new = altered(old, flattened(old.client), _single(changes))
            registries = self._registries(old, new)
            record = replace(old, configs=dict(new.configs), client=await self._tried(old, new), registries=registries)
            self._require_may_be(old, record)
            if validate_only or record == old:
                return self._links.view(record)
            await self._store(old, record)
            self._sources.add(record)
            self._engine.update_link(record)
            _log.info("link configs changed", link=name, configs=sorted({change.name for change in changes}))
        await self._told()
        return self._links.describe(name)

    async def pause(self, name: str, *, validate_only: bool = False) -> LinkView:
        """Mirror and sync nothing of the link until `resume`; its mirrors keep their own states, and clients' writes
        go on to the source. One that is paused stays so. Raises as `alter`."""
        return await self.alter(name, [ConfigChange(PAUSED, "true")], validate_only=validate_only)

    async def resume(self, name: str, *, validate_only: bool = False) -> LinkView:
        """Go on from where it was paused. One that is not paused goes on as it is. Raises as `alter`."""
        changes = [ConfigChange(PAUSED, operation=ConfigOperation.DELETE)]
        return await self.alter(name, changes, validate_only=validate_only)

    async def _store(self, old: LinkRecord, new: LinkRecord) -> None:
        await self._records.store.replace(old, new, guard=lambda: self._require_may_be(old, new))

    def _require_may_be(self, old: LinkRecord, new: LinkRecord) -> None:
        """Raises Conflict where the link is paused while a mirror of it is needed, or loses what one goes by."""
        pauses = parse(new.configs).paused and not parse(old.configs).paused
        why = why_not_paused(self._mirrors(new.name)) if pauses else ""
        if why:
            raise Conflict(f"link '{new.name}' cannot be paused: {why}")
        if why := why_ids_stay(self._mirrors(new.name), parse(new.configs)):
            raise Conflict(f"link '{new.name}' cannot be changed so: {why}")

    def _mirrors(self, link: str) -> Sequence[MirrorRecord]:
        return [mirror for key, mirror in self._records.store.mirrors.items() if key[0] == link]

    async def _tried(self, old: LinkRecord, new: Altered) -> Mapping[str, str]:
        """The client properties as they are stored, after they were tried against the source."""
        self._checks.require_login(new.config, new.client)
        if not new.client_changed and not _gives_secret(new):
            await self._checks.require_nothing_is_gained(new.config, new.client)
            return old.client
        try:
            client = self._sources.secrets.opened(old, new.client, new.given)
        except ValueError as exc:
            raise BadRequest(str(exc)) from exc
        access = await self._sources.try_out(old.name, client)
        try:
            found = access.cluster_id()
            if found != old.source_cluster_id:
                raise BadRequest(
                    f"{client['bootstrap.servers']} is another cluster (cluster id {found or 'unknown'}); the source "
                    f"of link '{old.name}' is {old.source_cluster_id}: create another link for it"
                )
            try:
                await access.try_brokers()
            except AuthenticationFailed as exc:
                raise SourceUnreachable(f"a broker of the source refuses: {exc}") from exc
            await self._checks.require_rights(old.name, new.config, client, access)
        finally:
            await access.close()
        return self._checks.sealed(old.name, client)

    def _registries(self, old: LinkRecord, new: Altered) -> Mapping[str, str]:
        """The properties of schema registries as they are stored. They are tried by the next round of schema sync."""
        if new.registries == old.registries and not new.given.intersection(old.registries):
            self._checks.require_registries(new.config, old.registries)
            return old.registries
        try:
            opened = self._sources.secrets.opened_registries(old, new.registries, new.given)
        except ValueError as exc:
            raise BadRequest(str(exc)) from exc
        return self._checks.registries(old.name, new.config, opened)

    async def _told(self) -> None:
        """Who does not answer goes by the new configs as soon as it has read them."""
        try:
            await self._fleet.read_by_all()
        except Conflict as exc:
            _log.warning("a gateway has not read yet what was changed", reason=str(exc))


def _gives_secret(new: Altered) -> bool:
    """A secret may be given again as it was: perhaps it is right now."""
    return any(name in new.client for name in new.given)


def _single(changes: Sequence[ConfigChange]) -> list[ConfigChange]:
    """Without `sasl.jaas.config`: what it says stands under the names of single properties.

    Raises:
        BadRequest: a name that is none, or a `sasl.jaas.config` without user name and password.
    """
    single = []
    known = (*OPTION_NAMES, *PROPERTIES, *REGISTRY_PROPERTIES)
    for change in changes:
        if change.name not in known:
            near = did_you_mean(change.name, known)
            raise BadRequest(f"{change.name}: unknown client property or link option{near}")
        if change.name != _JAAS:
            single.append(change)
            continue
        try:
            found = flattened({_JAAS: change.value}) if change.operation is ConfigOperation.SET else {}
        except ValueError as exc:
            raise BadRequest(str(exc)) from exc
        names = found or dict.fromkeys(("sasl.username", "sasl.password"), "")
        single += [ConfigChange(name, value, change.operation) for name, value in names.items()]
    return single
