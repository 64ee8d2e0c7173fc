"""Rewrites links whose records hold secrets as they are, or under a key that has been replaced; and the fleet's secret.

The older record stays in the log of the state topic until the broker has compacted it: the warning says so, since only
a new password on the source makes the old one worthless. The secret of the fleet is a new one at once: connections that
are there go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import structlog

from gateway.operations.secrets.link_secrets import LinkSecrets
from gateway.state.gateway_records import SECRET_BYTES
from gateway.state.records import LinkRecord
from gateway.state.store import StateStore, StoreError

_log = structlog.get_logger("lockgate.control")


class StoredSecrets:
    """Of one term of leadership; `look` is called now and then."""

    def __init__(self, store: StateStore, secrets: LinkSecrets, token_hex: Callable[[int], str]) -> None:
        self._token_hex = token_hex
        self._store = store
        self._secrets = secrets
        self._told: dict[str, str] = {}

    async def look(self) -> None:
        """Rewrite what can be rewritten now; say once why what cannot."""
        for link in list(self._store.links.values()):
            if self._secrets.is_outdated(link):
                await self._renew(link)
        await self._renew_fleet()

    async def _renew_fleet(self) -> None:
        old = self._store.fleet
        if old is None or not self._secrets.is_outdated_fleet(old.secret) or self._why_not():
            return
        try:
            await self._store.replace(
                old, replace(old, secret=self._secrets.sealed_fleet(self._token_hex(SECRET_BYTES)))
            )
        except StoreError:
            return  # looked at again
        _log.info("the fleet has a new secret, which is encrypted")

    async def _renew(self, link: LinkRecord) -> None:
        why = self._why_not()
        if not why and self._is_moving(link):
            return
        try:
            if not why:
                client, registries = self._secrets.renewed(link), self._secrets.renewed_registries(link)
                await self._store.replace(link, replace(link, client=client, registries=registries))
        except StoreError:
            return  # looked at again
        except ValueError as exc:
            why = str(exc)
        if why:
            self._tell(link, f"the secret of this link is in the state topic as it was given: {why}")
        else:
            self._tell(
                link,
                "the secret of this link is encrypted now; it was stored as it is, or under an older key, and that "
                "record is there until the state topic is compacted: change the password on the source",
            )

    def _why_not(self) -> str:
        if not self._secrets.key_ids:
            return "set links.key_file at every gateway, or make the link anew with a reference"
        lacking = self._secrets.lacking(self._store.gateways.values())
        return f"gateways without this key: {', '.join(lacking)}" if lacking else ""

    def _is_moving(self, link: LinkRecord) -> bool:
        """A topic is being cut over: the link must not be started anew now."""
        states = [mirror.state.value for key, mirror in self._store.mirrors.items() if key[0] == link.name]
        return any(state.startswith("PENDING") for state in states)

    def _tell(self, link: LinkRecord, what: str) -> None:
        if self._told.get(link.name) != what:
            self._told[link.name] = what
            _log.warning(what, link=link.name)
