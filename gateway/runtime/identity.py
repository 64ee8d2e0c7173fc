"""`identity: token`, made of the settings: tokens of a cluster, and who clients of a listener are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gateway.access.rules.users import ClientIdentities
from gateway.config.listeners import Endpoint, Tokens
from gateway.config.settings import Settings
from gateway.kafka.access.delegation_tokens import TokenRefused, create_token, expire_token, require_tokens
from gateway.kafka.access.token_book import TokenBook
from gateway.kafka.client_connections import ClientConnections
from gateway.kafka.cluster import Cluster
from gateway.proxy.identity.bearer import BearerTokens, Keys
from gateway.proxy.identity.identity import TokenIdentity
from gateway.proxy.identity.jwks import fetcher
from gateway.telemetry.numbers import TokenNumbers
from gateway.transport.host import Host


async def require_token_listeners(settings: Settings, target: Cluster) -> None:
    """Raises ValueError when clients of a listener could never get in: the target makes no tokens for others."""
    for where, endpoint in settings.endpoints().items():
        if endpoint.identity == "token":
            try:
                await require_tokens(target)
            except TokenRefused as error:
                raise ValueError(f"{where}.identity: token: the target: {error}") from None


def identities(settings: Settings) -> ClientIdentities:
    """By which listeners clients come as whom."""
    endpoints = settings.endpoints().items()
    return ClientIdentities(
        by_token=tuple(where for where, endpoint in endpoints if endpoint.identity == "token"),
        relayed=tuple(where for where, endpoint in endpoints if endpoint.identity == "relay"),
    )


def act_for_clients(cluster: Cluster, link: str, settings: Tokens, host: Host) -> None:
    """`link.identity=client`: what clients write goes to the source under their own principals."""
    tokens = token_book(cluster, settings, host, f"source of link {link}")
    cluster.clients = ClientConnections(cluster.config, tokens, cluster.address, cluster.invalidate)


def token_numbers(target: TokenBook, sources: Mapping[str, Cluster]) -> dict[str, TokenNumbers]:
    """Of the target under '', and of each link with `link.identity=client`."""
    found = {"": TokenNumbers(*target.counts)}
    for link, cluster in sources.items():
        if isinstance(cluster.clients, ClientConnections):
            found[link] = TokenNumbers(*cluster.clients.tokens.counts)
    return found


def token_book(cluster: Cluster, settings: Tokens, host: Host, where: str = "target") -> TokenBook:
    """The delegation tokens of a cluster; none is made before one is asked for."""
    return TokenBook(
        where,
        create=lambda owner: create_token(cluster, owner, settings.lifetime_s),
        expire=partial(expire_token, cluster),
        clock=host.monotonic,
        most=settings.principals,
    )


def token_identity(endpoint: Endpoint, tokens: TokenBook, host: Host) -> TokenIdentity | None:
    """None: clients log in at the target themselves. Raises ValueError for a file of no use."""
    if endpoint.identity == "relay":
        return None
    oauth = endpoint.oauth
    if oauth is None:
        return TokenIdentity(tokens, None, host.rng.random)
    keys = Keys(fetcher(oauth.jwks_url, oauth.ca), host.monotonic)
    bearers = BearerTokens(
        keys,
        issuer=oauth.issuer,
        audience=oauth.audience,
        claim=oauth.principal_claim,
        skew_s=oauth.clock_skew_s,
        wall_s=lambda: host.wall_ms() / 1000,
    )
    return TokenIdentity(tokens, bearers.check, host.rng.random)
