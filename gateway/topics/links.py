"""Operations on cluster links."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from gateway.cutover.write_pause.publisher import RoutingPublisher
from gateway.errors import BadRequest, Conflict, SourceUnreachable
from gateway.kafka.rules.names import bad_name
from gateway.mirror.interface import MirrorEngine
from gateway.mirror.rules.progress import MirrorProgress
from gateway.operations.cluster_access import ClusterAccess
from gateway.operations.cluster_errors import source_errors, target_errors
from gateway.operations.deleted_mirrors import DeletedMirrors
from gateway.operations.records import Records
from gateway.operations.secrets.rules.references import is_encrypted, shown
from gateway.operations.sources import LinkHealth, Sources
from gateway.state import link_config
from gateway.state.records import GroupRecord, GroupState, LinkRecord, MirrorRecord, MirrorState, SequenceRecord
from gateway.transport.locks import KeyedLocks

_log = structlog.get_logger("lockgate.control")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkView:
    """A link as shown. `state` under Confluent's names; secrets of `client` are hidden."""

    record: LinkRecord
    state: str
    state_since_ms: int
    error: str
    client: Mapping[str, str]
    configs: Mapping[str, str]
    mirror_counts: Mapping[str, int]


class Links:
    """Create, list, describe, delete."""

    def __init__(
        self,
        *,
        records: Records,
        sources: Sources,
        target: ClusterAccess,
        health: dict[str, LinkHealth],
        engine: MirrorEngine,
        publisher: RoutingPublisher,
        progress: MirrorProgress,
        locks: KeyedLocks,
        deleted: DeletedMirrors,
    ) -> None:
        """`health`: by link name; written here as links come and go, and by the engine's events."""
        self._records = records
        self._sources = sources
        self._target = target
        self._health = health
        self._engine = engine
        self._publisher = publisher
        self._progress = progress
        self._locks = locks
        self._deleted = deleted

    async def create(self, name: str, properties: Mapping[str, str]) -> LinkView:
        """Create a link. `properties`: client properties for the source and link options, in one mapping.

        Raises:
            BadRequest: bad name, property or option; or the source is the target itself; or clients would gain rights.
            Conflict: a link of this name exists.
            SourceUnreachable, TargetUnreachable: the source, or the target, did not answer.
        """
        problem = bad_name(name)
        if problem:
            raise BadRequest(f"link name: {problem}")
        configs = {key: value for key, value in properties.items() if key in link_config.OPTION_NAMES}
        client = {key: value for key, value in properties.items() if key not in link_config.OPTION_NAMES}
        try:
            config = link_config.parse(configs)
        except link_config.LinkConfigError as exc:
            raise BadRequest(str(exc)) from exc
        if config.identity is link_config.LinkIdentity.CLIENT and not _logs_in(client):
            raise BadRequest(
                "link.identity: client takes delegation tokens, and those take a source where clients log in: "
                "security.protocol=SASL_SSL"
            )
        async with self._locks.hold(f"link/{name}"):
            self._require_absent(name)
            access = await self._sources.try_out(client)
            try:
                if config.identity is link_config.LinkIdentity.CLIENT:
                    await _require_tokens(name, access)
                else:
                    await self._require_nothing_is_gained(config, client)
                record = await self._store(name, client, configs, access.cluster_id())
            except BaseException:
                await access.close()
                raise
            self._sources.adopt(record, access)
            self._health[name] = LinkHealth(True, self._records.now_ms())
            await self._engine.start_link(record)
        _log.info("link created", link=name, source=client["bootstrap.servers"], cluster_id=record.source_cluster_id)
        return self.view(record)

    def list(self) -> list[LinkView]:
        """All links, by name."""
        return [self.view(self._records.store.links[name]) for name in sorted(self._records.store.links)]

    def describe(self, name: str) -> LinkView:
        """One link; NotFound if there is none."""
        return self.view(self._records.link(name))

    async def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a link with the records of its mirrors and groups; topics stay as they are.

        Without `force` only when nothing is lost by it: every mirror STOPPED, long enough ago that no producer
        retries what was mirrored, and every group PROMOTED. With it, mirroring just ends: what clients of the
        gateway write to those topics from then on goes to the target, and gated groups read there from wherever
        the target has them. A running promote is never cut off.

        Raises:
            NotFound: no such link.
            Conflict: with the reason.
        """
        self._records.link(name)
        async with self._locks.hold(f"link/{name}"):
            link = self._records.link(name)
            mirrors, groups = self._mirrors_of(name), self._groups_of(name)

            def still_allowed() -> None:
                if (mirrors, groups) != (self._mirrors_of(name), self._groups_of(name)):
                    raise Conflict(f"link '{name}': a mirror or a group of it was changed meanwhile; try again")
                retried_s = max((self._publisher.retried_s(mirror.mirror_topic) for mirror in mirrors), default=0.0)
                reason = _why_not_deleted(mirrors, groups, retried_s, force=force)
                if reason:
                    raise Conflict(f"link '{name}': {reason}")

            still_allowed()
            await self._records.store.delete(*mirrors, *groups, link, guard=still_allowed)
            await self._engine.stop_link(name)
            await self._sources.remove(name)
            self._health.pop(name, None)
            for mirror in mirrors:
                self._publisher.forget(mirror.mirror_topic)
                self._progress.forget(mirror.mirror_topic)
                self._deleted.tell(mirror)
        _log.info("link deleted", link=name, mirrors=len(mirrors), groups=len(groups), force=force)

    def _mirrors_of(self, link: str) -> Sequence[MirrorRecord]:
        return [mirror for key, mirror in self._records.store.mirrors.items() if key[0] == link]

    def _groups_of(self, link: str) -> Sequence[GroupRecord]:
        return [group for key, group in self._records.store.groups.items() if key[0] == link]

    def view(self, link: LinkRecord) -> LinkView:
        """The link as shown."""
        health = self._health.get(link.name, LinkHealth(True, link.created_ms))
        states = Counter(m.state.value for key, m in self._records.store.mirrors.items() if key[0] == link.name)
        return LinkView(
            record=link,
            state="ACTIVE" if health.available else "UNAVAILABLE",
            state_since_ms=health.since_ms,
            error="" if health.available else health.message,
            client=shown(link.client),
            configs=link_config.with_defaults(link.configs),
            mirror_counts=dict(states),
        )

    def _sealed(self, name: str, client: Mapping[str, str]) -> dict[str, str]:
        """The properties as they are stored. Raises Conflict when a gateway could not read them."""
        of_links = self._sources.secrets
        sealed = of_links.sealed(name, client)
        if any(map(is_encrypted, sealed.values())):
            lacking = of_links.lacking(self._records.store.gateways.values())
            if lacking:
                raise Conflict(f"gateways without the first key of links.key_file: {', '.join(lacking)}")
        return sealed

    async def _require_nothing_is_gained(self, config: link_config.LinkConfig, client: Mapping[str, str]) -> None:
        """Where nobody is asked who may write, each client could write on the source as the link's principal."""
        if config.allow_unauthorized_target or not has_credentials(client):
            return
        with target_errors():
            authorized = await self._target.has_authorizer()
        if not authorized:
            raise BadRequest(
                "the target has no authorizer, so every client of the gateway could write on the source with the "
                "rights of this link's login: give the target one, or set link.allow.unauthorized.target=true"
            )

    def _require_absent(self, name: str) -> None:
        if name in self._records.store.links:
            raise Conflict(f"link '{name}' exists already")

    async def _store(
        self, name: str, client: Mapping[str, str], configs: Mapping[str, str], cluster_id: str
    ) -> LinkRecord:
        if not cluster_id:
            raise SourceUnreachable(f"the source cluster {client['bootstrap.servers']} does not tell its cluster id")
        if cluster_id == self._target.cluster_id():
            raise BadRequest(
                f"{client['bootstrap.servers']} is the target cluster itself (cluster id {cluster_id}); "
                "a link needs another cluster as its source"
            )
        sealed = self._sealed(name, client)
        async with self._locks.hold("sequence/link"):
            last = self._records.store.sequences.get("link", SequenceRecord("link", 0)).last
            record = LinkRecord(
                name=name,
                link_id=last + 1,
                source_cluster_id=cluster_id,
                client=sealed,
                configs=link_config.settled(configs),
                created_ms=self._records.now_ms(),
            )
            await self._records.store.put(
                record, SequenceRecord("link", last + 1), guard=lambda: self._require_absent(name)
            )
        return record


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


def _why_not_deleted(
    mirrors: Sequence[MirrorRecord], groups: Sequence[GroupRecord], retried_s: float, *, force: bool
) -> str:
    """Why a link with these mirrors and groups cannot be deleted; '' when it can."""
    for mirror in mirrors:
        if mirror.state is MirrorState.PENDING_STOPPED:
            return f"mirror topic '{mirror.mirror_topic}' is being promoted; wait for its end"
        if mirror.state is MirrorState.PENDING_SETUP_FOR_RESTORE:
            return f"mirror topic '{mirror.mirror_topic}' is being restored; wait for its end"
    if force:
        return ""
    live = [mirror for mirror in mirrors if mirror.state is not MirrorState.STOPPED]
    if live:
        return (
            f"{len(live)} mirror topic(s) are not STOPPED, such as '{live[0].mirror_topic}' ({live[0].state}); "
            "promote them first, or use force"
        )
    waiting = [group for group in groups if group.state is not GroupState.PROMOTED]
    if waiting:
        return (
            f"{len(waiting)} mirror group(s) are not PROMOTED, such as '{waiting[0].group}' ({waiting[0].state}); "
            "their offsets would be lost; promote them first, or use force"
        )
    if retried_s > 0:
        return (
            "producers may still retry batches from before the last promote, which only the link's records tell "
            f"from new ones; wait {math.ceil(retried_s / 60)} min, or use force"
        )
    return ""
