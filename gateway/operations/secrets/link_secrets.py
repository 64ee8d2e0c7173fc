"""The secrets of links: what may be given, what is stored of it, and what it stands for where it is used.

The state topic is on the target, and whoever may read it there must not get into the source. So what is stored of a
secret is a reference that each gateway reads for itself, or the secret encrypted with a key that the gateways have and
the target has not. Records from before may hold secrets as they are: those are used, and rewritten by the leader
(`operations/secrets/stored.py`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.properties import parse_jaas
from gateway.operations.link_policy import DEFAULT_POLICY, LinkPolicy
from gateway.operations.secrets.providers import read
from gateway.operations.secrets.rules.references import (
    ENCRYPTED,
    REFERABLE,
    SECRETS,
    for_name,
    is_encrypted,
    is_plain,
    reference,
    require_well_formed,
)
from gateway.operations.secrets.sealing import SealingKeys
from gateway.state.gateway_records import GatewayRecord
from gateway.state.link_config import OPTION_NAMES
from gateway.state.records import LinkRecord
from gateway.state.schemas.registry_properties import (
    REGISTRY_PROPERTIES,
    RegistryConfig,
    RegistrySide,
    of_side,
    registry_config,
)

_FLEET: Final = b"lockgate fleet"
_JAAS: Final = "sasl.jaas.config"


class LinkSecrets:
    """Args.

    policy: which files and variables of this machine may be named.
    keys: None: nothing can be encrypted here.
    """

    def __init__(
        self,
        policy: LinkPolicy = DEFAULT_POLICY,
        keys: SealingKeys | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._policy = policy
        self._keys = keys
        self._environment = environment

    @property
    def key_ids(self) -> tuple[str, ...]:
        """Of the keys that this gateway has."""
        return () if self._keys is None else self._keys.ids

    # -- of a new link -------------------------------------------------------------------------------------------

    def accepted(self, link: str, client: Mapping[str, str]) -> dict[str, str]:
        """The properties of a link of this name as they are gone on with: single ones, each secret there to be read.

        Raises:
            ValueError: one line that names the property, and the remedy.
        """
        found = flattened(client)
        self._require(link, found)
        for name in REFERABLE:
            self._resolved({}, link, name, found.get(name, ""))
        return found

    def accepted_registries(self, link: str, registries: Mapping[str, str]) -> dict[str, str]:
        """As `accepted`, of the properties of a link's schema registries."""
        found = {name: str(value) for name, value in registries.items()}
        self._require(link, found)
        for side in RegistrySide:
            config = registry_config(found, side)
            if config is not None:
                config.resolved(partial(self._resolved, {}, link))
        return found

    def _require(self, link: str, found: Mapping[str, str]) -> None:
        self._policy.require(link, found)
        require_well_formed(found)
        for name in _plain(found) if self._keys is None else ():
            raise ValueError(
                f"{name}: would be stored where others read it: give ${{file:/path:key}}, ${{dir:/path:name}} or "
                "${env:NAME}, or set links.key_file in the settings of every gateway, and it is encrypted"
            )

    def config(self, link: str, accepted: Mapping[str, str]) -> ClusterConfig:
        """How to reach the source of a link that is not stored yet. Raises ValueError naming the property."""
        resolve = partial(self._resolved, {}, link)
        config = ClusterConfig.from_client_properties(accepted, resolve, others=(*OPTION_NAMES, *REGISTRY_PROPERTIES))
        return self._under_the_policy(link, config)

    def sealed(self, link: str, client: Mapping[str, str]) -> dict[str, str]:
        """The properties as they are stored: what is a secret itself is encrypted."""
        found = flattened(client)
        if self._keys is None:
            return found
        sealed: dict[str, str] = {
            name: self._keys.seal(found[name], _context(link, found, name)) for name in _plain(found)
        }
        return {**found, **sealed}

    def sealed_registries(self, link: str, registries: Mapping[str, str]) -> dict[str, str]:
        """As `sealed`; each secret is bound to what is said of its registry."""
        parts = [self.sealed(link, of_side(registries, side)) for side in RegistrySide]
        return {name: value for part in parts for name, value in part.items()}

    # -- of a stored one -----------------------------------------------------------------------------------------

    def config_of(self, link: LinkRecord) -> ClusterConfig:
        """How to reach a link's source. Files and secrets are read when it is connected to, and errors told then."""
        client = flattened(link.client)
        resolve = partial(self._resolved, client, link.name)
        config = ClusterConfig.from_client_properties(client, resolve, reads_files=False)
        return self._under_the_policy(link.name, config)

    def _under_the_policy(self, link: str, config: ClusterConfig) -> ClusterConfig:
        """Held to the policy at each use, as what is referred to is read at each one."""
        protocol, mechanism = config.security_protocol, config.sasl_mechanism
        return replace(
            config,
            may_use=partial(self._policy.require, link, config.properties),
            may_reach=partial(self._policy.require_broker, protocol, mechanism),
        )

    def opened(self, link: LinkRecord, client: Mapping[str, str], given: Collection[str]) -> dict[str, str]:
        """Changed properties of a stored link as they are gone on with: what is stored encrypted is opened.

        Args:
            given: the names whose values came with the change, and are not what is stored.

        Raises:
            ValueError: one line that names the property, and the remedy.
        """
        stored = flattened(link.client)
        return self.accepted(link.name, self._opened(link.name, stored, client, given))

    def opened_registries(
        self, link: LinkRecord, registries: Mapping[str, str], given: Collection[str]
    ) -> dict[str, str]:
        """As `opened`."""
        parts = [
            self._opened(link.name, of_side(link.registries, side), of_side(registries, side), given)
            for side in RegistrySide
        ]
        return self.accepted_registries(link.name, {name: value for part in parts for name, value in part.items()})

    def _opened(
        self, link: str, stored: Mapping[str, str], now: Mapping[str, str], given: Collection[str]
    ) -> dict[str, str]:
        return {
            name: self._resolved(stored, link, name, value)
            if name in SECRETS and name not in given and is_encrypted(value)
            else value
            for name, value in now.items()
        }

    def registry(self, link: LinkRecord, side: RegistrySide) -> RegistryConfig:
        """How to reach a link's registry, with its secrets as they are now.

        Raises:
            ValueError: it names none, or what may not be had here, or a secret cannot be read; names the property.
        """
        config = registry_config(link.registries, side)
        if config is None:
            raise ValueError(f"{side.prefix}url: missing; it names the registry of the {side}")
        self._policy.require(link.name, of_side(link.registries, side))
        return config.resolved(partial(self._resolved, of_side(link.registries, side), link.name))

    def is_outdated(self, link: LinkRecord) -> bool:
        """Something in the record would be stored in another way today: as it is, or under an older key."""
        stored = {**flattened(link.client), **link.registries}
        return any(self._is_outdated(value) for name, value in stored.items() if name in SECRETS)

    def renewed(self, link: LinkRecord) -> dict[str, str]:
        """The properties of a stored link, encrypted with the first key. Raises ValueError when one cannot be read."""
        return self._renewed(link.name, flattened(link.client))

    def renewed_registries(self, link: LinkRecord) -> dict[str, str]:
        """As `renewed`."""
        parts = [self._renewed(link.name, of_side(link.registries, side)) for side in RegistrySide]
        return {name: value for part in parts for name, value in part.items()}

    def _renewed(self, link: str, stored: Mapping[str, str]) -> dict[str, str]:
        opened: dict[str, str] = {
            name: self._resolved(stored, link, name, stored[name])
            for name in SECRETS
            if name in stored and self._is_outdated(stored[name])
        }
        return self.sealed(link, {**stored, **opened})

    # -- of users ------------------------------------------------------------------------------------------------

    def of_user(self, link: str, template: str, user: str) -> str:
        """The secret that a template (`references.for_name`) of a link has for a user, read now and kept nowhere.

        Raises:
            ValueError: no template, or the secret may not be had, or is not there. Names the place, not the secret.
        """
        return read(for_name(template, user), link, self._policy, self._environment)

    # -- of the fleet --------------------------------------------------------------------------------------------

    def sealed_fleet(self, secret: str) -> str:
        """The secret of the fleet as it is stored."""
        return secret if self._keys is None else self._keys.seal(secret, _FLEET)

    def fleet(self, stored: str) -> str:
        """The secret of the fleet. Raises ValueError when this gateway cannot read it."""
        found = reference(stored)
        if found is None:
            return stored
        try:
            if self._keys is None:
                raise ValueError("is encrypted, and this gateway has no key: set links.key_file")
            return self._keys.open(found, _FLEET)
        except ValueError as exc:
            raise ValueError(f"the fleet's secret {exc}") from None

    def is_outdated_fleet(self, stored: str) -> bool:
        """It would be encrypted, or with another key, today."""
        return self._keys is not None and self._is_outdated(stored)

    def lacking(self, gateways: Iterable[GatewayRecord]) -> list[str]:
        """Those that could not read what is encrypted here, by name."""
        key = "" if self._keys is None else self._keys.id
        return sorted(record.name for record in gateways if key not in record.keys.split(","))

    def _is_outdated(self, value: str) -> bool:
        found = reference(value)
        if found is None:
            return bool(value)
        return found.provider == ENCRYPTED and self._keys is not None and found.path != self._keys.id

    def _resolved(self, client: Mapping[str, str], link: str, name: str, value: str) -> str:
        found = reference(value)
        if found is None:
            return value
        try:
            if found.provider != ENCRYPTED:
                return read(found, link, self._policy, self._environment)
            if self._keys is None:
                raise ValueError("is encrypted, and this gateway has no key: set links.key_file")
            return self._keys.open(found, _context(link, client, name))
        except ValueError as exc:
            raise ValueError(f"{name}: {exc}") from None


def flattened(client: Mapping[str, str]) -> dict[str, str]:
    """The properties without `sasl.jaas.config`: what it says stands under the names of single properties.

    Raises:
        ValueError: it has no user name and password.
    """
    rest = {name: str(value) for name, value in client.items() if name != _JAAS}
    if _JAAS not in client:
        return rest
    try:
        username, password = parse_jaas(str(client[_JAAS]))
    except ValueError as exc:
        raise ValueError(f"{_JAAS}: {exc}") from None
    return {"sasl.username": username, "sasl.password": password, **rest}


def _plain(client: Mapping[str, str]) -> list[str]:
    return [name for name in SECRETS if is_plain(client.get(name, ""))]


def _context(link: str, client: Mapping[str, str], name: str) -> bytes:
    """What a secret was given for: its link and all that is said of the cluster."""
    others = sorted((key, value) for key, value in client.items() if key not in SECRETS)
    return json.dumps(["lockgate link", link, name, others], ensure_ascii=True).encode()
