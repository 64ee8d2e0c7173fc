"""All that is looked at: machine, settings, gateway, target, sources, and the way through the gateway.

REST is asked first, for links and their topics; then the clusters, all at the same time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from gateway.cli.connection import DEFAULT_URL
from gateway.cli.doctor.rest import SourceLink, look_at_gateway
from gateway.cli.doctor.settings import api_url, listener_properties, look_at_files, look_at_ports, told_hosts
from gateway.config.settings import Settings
from gateway.doctor.cluster import look_at_cluster
from gateway.doctor.machine import look_at_machine
from gateway.doctor.places import PATIENCE, look_at_places
from gateway.doctor.rules.cluster import check_cluster
from gateway.doctor.rules.facts import GatewayFacts, Inquiry, SeenCluster, Side
from gateway.doctor.rules.finding import DoctorFinding, bad
from gateway.doctor.rules.gateway import check_gateway, check_through
from gateway.doctor.rules.machine import check_machine, check_ports
from gateway.doctor.rules.places import check_files, check_told
from gateway.fleet.fleet import GROUP
from gateway.kafka.connection.config import ClusterConfig
from gateway.mirror.offset_map.topic import map_topic
from gateway.operations.link_policy import DEFAULT_POLICY, LinkPolicy, login_is_readable
from gateway.operations.secrets.link_secrets import LinkSecrets
from gateway.operations.secrets.rules.references import REDACTED
from gateway.proxy.transactions.identities import TOPIC as PRODUCERS
from gateway.state.link_config import LinkIdentity
from gateway.state.topic import TOPIC as STATE
from gateway.state.topic import TRANSACTIONAL_ID
from gateway.version import VERSION

_Looking: TypeAlias = Coroutine[Any, Any, SeenCluster]
_PUBLIC: Final = ("bootstrap.servers", "ssl.ca.location", "ssl.endpoint.identification.algorithm")

_AS_A_CLIENT: Final = Inquiry(side=Side.TARGET)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """What somebody wants to know. `source`, `target`, `through`: client properties, None where they are not given.

    `topics`, `groups`: on the source and on the target, beside those that links have.
    """

    settings: Settings | None
    url: str
    link: str
    source: Mapping[str, str] | None
    target: Mapping[str, str] | None
    through: Mapping[str, str] | None
    topics: tuple[str, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeenClusters:
    """As they were seen. `target`: None when nobody said where it is."""

    target: SeenCluster | None
    sources: tuple[SeenCluster, ...]
    through: tuple[SeenCluster, ...]


def examine(options: DoctorOptions) -> list[DoctorFinding]:
    """All findings, in the order in which they are shown."""
    settings = options.settings
    logging.getLogger("gateway").addHandler(logging.NullHandler())  # what clients warn of is a finding here
    url = api_url(settings) if settings is not None and options.url == DEFAULT_URL else options.url
    expected = bool(options.link) or not (settings or options.source or options.target)
    gateway, links = look_at_gateway(url, options.link)
    clusters = asyncio.run(_clusters(options, gateway, links))
    now = time.time()
    found = [
        *check_machine(look_at_machine(), None if settings is None else settings.limits.connections),
        *_of_settings(settings, gateway, clusters.target, now),
        *check_gateway(gateway, VERSION, expected=expected),
    ]
    if options.link and not gateway.error and options.link not in gateway.links:
        found.append(_no_link(options.link))
    if clusters.target is not None:
        found += check_cluster(clusters.target, now)
    for source in clusters.sources:
        found += check_cluster(source, now)
    for through in clusters.through:
        found += check_through(through, clusters.target, gateway.target_cluster_id, now)
    return found


def _of_settings(
    settings: Settings | None, gateway: GatewayFacts, target: SeenCluster | None, now: float
) -> Iterator[DoctorFinding]:
    if settings is None:
        return
    for option, host in told_hosts(settings):
        yield from check_told(option, host)
    nodes = [] if target is None else [broker.node_id for broker in target.brokers]
    yield from check_files(look_at_files(settings, nodes), now)
    if gateway.error:
        yield from check_ports(look_at_ports(settings))


def _no_link(name: str) -> DoctorFinding:
    return bad("link", f"source {name}", "the gateway has no such link", "see which there are: lockgate link list")


async def _clusters(options: DoctorOptions, gateway: GatewayFacts, links: tuple[SourceLink, ...]) -> _SeenClusters:
    properties = options.target
    if properties is None and options.settings is not None:
        properties = options.settings.target
    target = _at_target(properties, options, links)
    sources = _at_sources(options, links)
    through = _at_listeners(options, properties, gateway)
    found = await asyncio.gather(*target, *sources, *through)
    after = len(target) + len(sources)
    return _SeenClusters(
        target=found[0] if target else None,
        sources=tuple(found[len(target) : after]),
        through=tuple(found[after:]),
    )


# -- the target ----------------------------------------------------------------------------------------------------


def _at_target(
    properties: Mapping[str, str] | None, options: DoctorOptions, links: tuple[SourceLink, ...]
) -> list[_Looking]:
    if properties is None:
        return []
    asked = Inquiry(
        side=Side.TARGET,
        own_topics=(STATE, PRODUCERS, *(map_topic(link.name) for link in links)),
        fleet=GROUP,
        transactional_ids=(TRANSACTIONAL_ID,),
        topics=_names(*((there for _, there in link.topics) for link in links), options.topics),
        groups=_names(*((there for _, there in link.groups) for link in links), options.groups),
    )
    return [look_at_cluster("target", ClusterConfig.from_client_properties(properties), asked)]


def _names(*lists: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for names in lists for name in names))


# -- sources -------------------------------------------------------------------------------------------------------


def _at_sources(options: DoctorOptions, links: tuple[SourceLink, ...]) -> list[_Looking]:
    if options.source is not None:
        seen = links[0] if len(links) == 1 else None
        name = f"source {options.link or (seen.name if seen else '')}".rstrip()
        config = ClusterConfig.from_client_properties(options.source)
        return [look_at_cluster(name, config, _of_source(options, seen))]
    return [_at_source(options, link) for link in links]


def _of_source(options: DoctorOptions, link: SourceLink | None) -> Inquiry:
    return Inquiry(
        side=Side.SOURCE,
        topics=_names([here for here, _ in link.topics] if link else (), options.topics),
        groups=_names([here for here, _ in link.groups] if link else (), options.groups),
        writes=link is not None and link.identity == LinkIdentity.LINK,
    )


async def _at_source(options: DoctorOptions, link: SourceLink) -> SeenCluster:
    """With what its link says, where its secrets can be had here as the gateway has them."""
    name, asked = f"source {link.name}", _of_source(options, link)
    hidden = [key for key, value in link.client.items() if value == REDACTED]
    try:
        if hidden:
            raise ValueError(f"{hidden[0]} is a secret that the gateway does not tell")
        secrets = _secrets(options.settings)
        config = secrets.config(link.name, secrets.accepted(link.name, link.client))
    except ValueError as exc:
        return await _places_alone(SeenCluster(name=name, asked=asked, unasked=str(exc)), link.client)
    return await look_at_cluster(name, config, asked)


def _secrets(settings: Settings | None) -> LinkSecrets:
    """What links may name on this machine, as the settings say."""
    if settings is None:
        return LinkSecrets(DEFAULT_POLICY)
    links = settings.links
    return LinkSecrets(LinkPolicy(links.files, links.allow_unverified_tls, links.variables, links.hosts))


async def _places_alone(facts: SeenCluster, properties: Mapping[str, str]) -> SeenCluster:
    """Its bootstrap servers, without a login. A CA that is not here, or not known, is not asked."""
    public = {key: properties[key] for key in _PUBLIC if key in properties}
    tls = properties.get("security.protocol", "").upper().endswith("SSL")
    public["security.protocol"] = "SSL" if tls else "PLAINTEXT"
    try:
        config = ClusterConfig.from_client_properties(public)
    except ValueError:
        public.pop("ssl.ca.location", None)
        config = _unchecked(ClusterConfig.from_client_properties(public))
    return await _with_places(facts, config)


def _unchecked(config: ClusterConfig) -> ClusterConfig:
    return replace(config, tls=replace(config.tls, verify_certificate=False))


async def _with_places(facts: SeenCluster, config: ClusterConfig) -> SeenCluster:
    places = await look_at_places(config.bootstrap, config, PATIENCE, advertised=False)
    checked = config.tls.verify_certificate and config.tls.verify_hostname
    return replace(facts, bootstrap=places, verifies_names=checked)


# -- through the gateway -------------------------------------------------------------------------------------------


def _at_listeners(options: DoctorOptions, target: Mapping[str, str] | None, gateway: GatewayFacts) -> list[_Looking]:
    if options.through is not None:
        properties = options.through
        if properties.keys() == {"bootstrap.servers"} and target is not None:
            properties = {**target, **properties}
        config = ClusterConfig.from_client_properties(properties)
        return [look_at_cluster(f"through {_first(config)}", config, _AS_A_CLIENT, in_depth=False)]
    if gateway.error:
        return []
    if options.settings is not None:
        return [_at_listener(options.settings, where) for where in options.settings.endpoints()]
    told = [name for name in gateway.listeners if name == "bootstrap" or name.endswith(".bootstrap")]
    return [_at_told(name, gateway.listeners) for name in told]


def _first(config: ClusterConfig) -> str:
    host, port = config.bootstrap[0]
    return f"{host}:{port}"


async def _at_listener(settings: Settings, where: str) -> SeenCluster:
    """By the gateway's own login, where a listener takes it and nothing but the settings is needed."""
    endpoint = settings.endpoints()[where]
    config = ClusterConfig.from_client_properties(listener_properties(settings, endpoint))
    name = f"through {_first(config)}"
    why = "clients trust a CA there that these settings do not name"
    if endpoint.tls is None:
        if not login_is_readable(config.security_protocol, config.sasl_mechanism, config.bootstrap[0][0]):
            return await look_at_cluster(name, config, _AS_A_CLIENT, in_depth=False)
        why = "the gateway's own login could be read on the way"
    facts = SeenCluster(name=name, asked=_AS_A_CLIENT, unasked=why)
    return await _with_places(facts, _unchecked(config))


async def _at_told(name: str, listeners: Mapping[str, str]) -> SeenCluster:
    """Every port of a listener, as the gateway tells it."""
    beginning = name.removesuffix("bootstrap")
    addresses = [
        address
        for other, address in listeners.items()
        if other.startswith(beginning) and "." not in other.removeprefix(beginning)
    ]
    config = ClusterConfig.from_client_properties({"bootstrap.servers": ",".join(dict.fromkeys(addresses))})
    why = "how clients log in there is not known here"
    facts = SeenCluster(name=f"through {listeners[name]}", asked=_AS_A_CLIENT, unasked=why)
    return await _with_places(facts, config)
