"""What a link must be before it is stored, when it is created and whenever it is changed."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.errors import BadRequest, Conflict, SourceUnreachable
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.records import Records
from gateway.operations.secrets.rules.references import is_encrypted
from gateway.operations.sources import Sources
from gateway.state import link_config
from gateway.state.link_config import LinkIdentity
from gateway.state.schemas.registry_properties import URL, RegistrySide


class LinkChecks:
    """Of one term. Each raises what the operator is to hear; nothing is changed."""

    def __init__(self, *, records: Records, sources: Sources, target: ClusterAccess) -> None:
        self._records = records
        self._sources = sources
        self._target = target

    @staticmethod
    def require_login(config: link_config.LinkConfig, client: Mapping[str, str]) -> None:
        """BadRequest: clients are to be written for as themselves where nobody logs in."""
        if config.identity is LinkIdentity.CLIENT and not _logs_in(client):
            raise BadRequest(
                "link.identity: client takes delegation tokens, and those take a source where clients log in: "
                "security.protocol=SASL_SSL"
            )

    async def require_rights(
        self, link: str, config: link_config.LinkConfig, client: Mapping[str, str], access: ClusterAccess
    ) -> None:
        """No client gains rights on the source by the link.

        Raises:
            BadRequest: the target asks nobody who may write, and the link logs in.
            Conflict, SourceUnreachable, TargetUnreachable: the source makes no tokens, or somebody does not answer.
        """
        if config.identity is LinkIdentity.CLIENT:
            await _require_tokens(link, access)
        await self.require_nothing_is_gained(config, client)

    async def require_nothing_is_gained(self, config: link_config.LinkConfig, client: Mapping[str, str]) -> None:
        """Where nobody is asked who may write, each client could write on the source as the link's principal.

        Raises as `require_rights`.
        """
        if config.identity is LinkIdentity.CLIENT:
            return
        if config.allow_unauthorized_target or not has_credentials(client):
            return
        with target_errors():
            authorized = await self._target.has_authorizer()
        if not authorized:
            raise BadRequest(
                "the target has no authorizer, so every client of the gateway could write on the source with the "
                "rights of this link's login: give the target one, or set link.allow.unauthorized.target=true"
            )

    def require_source(self, client: Mapping[str, str], cluster_id: str) -> None:
        """SourceUnreachable, BadRequest: the cluster does not say which it is, or is the target."""
        if not cluster_id:
            raise SourceUnreachable(f"the source cluster {client['bootstrap.servers']} does not tell its cluster id")
        if cluster_id == self._target.cluster_id():
            raise BadRequest(
                f"{client['bootstrap.servers']} is the target cluster itself (cluster id {cluster_id}); "
                "a link needs another cluster as its source"
            )

    def sealed(self, name: str, client: Mapping[str, str]) -> dict[str, str]:
        """The properties as they are stored. Raises Conflict when a gateway could not read them."""
        return self._readable(self._sources.secrets.sealed(name, client))

    def registries(self, name: str, config: link_config.LinkConfig, given: Mapping[str, str]) -> dict[str, str]:
        """The properties of schema registries as they are stored.

        Raises:
            BadRequest: a property is bad, not allowed here, or missing.
            Conflict: a gateway could not read them.
        """
        of_links = self._sources.secrets
        try:
            found = of_links.accepted_registries(name, given)
        except ValueError as exc:
            raise BadRequest(str(exc)) from exc
        self.require_registries(config, found)
        return self._readable(of_links.sealed_registries(name, found))

    @staticmethod
    def require_registries(config: link_config.LinkConfig, registries: Mapping[str, str]) -> None:
        """BadRequest: schemas are to be copied from or to where nobody says."""
        for side in RegistrySide if config.schema_sync else ():
            if side.prefix + URL not in registries:
                raise BadRequest(f"{link_config.SCHEMA_SYNC}: needs {side.prefix}{URL}")

    def _readable(self, sealed: dict[str, str]) -> dict[str, str]:
        if any(map(is_encrypted, sealed.values())):
            lacking = self._sources.secrets.lacking(self._records.store.gateways.values())
            if lacking:
                raise Conflict(f"gateways without the first key of links.key_file: {', '.join(lacking)}")
        return sealed


def parsed(configs: Mapping[str, str]) -> link_config.LinkConfig:
    """The options. Raises BadRequest naming the one that is wrong."""
    try:
        return link_config.parse(configs)
    except link_config.LinkConfigError as exc:
        raise BadRequest(str(exc)) from exc


async def _require_tokens(link: str, source: ClusterAccess) -> None:
    try:
        with source_errors(link):
            await source.require_tokens()
    except (SourceUnreachable, Conflict) as exc:
        raise type(exc)(f"link.identity=client: {exc}") from exc


def has_credentials(client: Mapping[str, str]) -> bool:
    """Whether the source knows the link by more than its address: by a login or by a certificate."""
    return _logs_in(client) or "ssl.certificate.location" in client


def _logs_in(client: Mapping[str, str]) -> bool:
    return client.get("security.protocol", "").upper().startswith("SASL")
