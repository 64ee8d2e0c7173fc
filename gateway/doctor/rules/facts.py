"""What was found out, as it was found: no judgement, and no secret. Times are seconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.doctor.rules.rights import NOT_TOLD
from gateway.kafka.rules.quota import QuotaKey


class Side(StrEnum):
    """Whose part a cluster has."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What a cluster is asked for beyond what each is. `own_topics`: lockgate's own, which are to be on the target, and
    `fleet`, its group; '' for none. `topics`, `groups`: mirror topics and groups by their names on this cluster.
    `writes`: clients' writes go there as this principal."""

    side: Side
    own_topics: tuple[str, ...] = ()
    fleet: str = ""
    transactional_ids: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    writes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressFacts:
    """One address of a name. `error`: why it takes no TCP connection; '' when it does."""

    address: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """A certificate. `error`: why a client that trusts what this one trusts refuses it, '' when it does not. `names`:
    the hosts and addresses that it is good for; () also when it was not seen, and then `not_after` is 0."""

    error: str = ""
    not_before: float = 0.0
    not_after: float = 0.0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceFacts:
    """A host and port. `unresolved`: why the name has no address. `certificate`: None without TLS, or when nothing took
    a connection. `advertised`: a broker has told it, nobody here has typed it."""

    host: str
    port: int
    unresolved: str = ""
    addresses: tuple[AddressFacts, ...] = ()
    certificate: CertificateFacts | None = None
    advertised: bool = False

    @property
    def name(self) -> str:
        """HOST:PORT."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def connects(self) -> bool:
        """Whether at least one of its addresses does."""
        return any(not one.error for one in self.addresses)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """A broker as its cluster names it. `error`: why nobody could log in, '' when one could. `versions`: of its APIs,
    by key. `throttled_s`: for how long it reads nothing of this principal yet."""

    node_id: int
    place: PlaceFacts
    error: str = ""
    versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    throttled_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTopicFacts:
    """A topic of lockgate's own. `partitions` 0: there is none. `replicas`, `in_sync`: the fewest of a partition; -1:
    not told. `configs`: None when they were not told, for the reason in `untold`."""

    name: str
    partitions: int = 0
    replicas: int = -1
    in_sync: int = -1
    configs: Mapping[str, str] | None = None
    untold: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsFacts:
    """What a principal may do: AclOperations as bits, by name; what was not told is left out, or `NOT_TOLD`.

    `topic_configs`: of topics whose rights go by them. `transactional_ids`: why one may not be looked at, '' when it
    may. `untold`: question -> why a cluster did not answer it.
    """

    on_cluster: int = NOT_TOLD
    topics: Mapping[str, int] = field(default_factory=dict)
    topic_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    transactional_ids: Mapping[str, str] = field(default_factory=dict)
    untold: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCluster:
    """A cluster as one principal sees it from here. `user`: its name, '' for who comes without one that is known here.

    `error`: why the cluster does not serve it; `refused`: it does not take the login. `unasked`: why nobody has tried,
    so that only `bootstrap` is known. `quotas`: all of the cluster; None when they were not told, for the reason in
    `quotas_untold`.
    """

    name: str
    asked: Inquiry
    user: str = ""
    client_id: str = ""
    verifies_names: bool = True
    bootstrap: tuple[PlaceFacts, ...] = ()
    error: str = ""
    refused: bool = False
    unasked: str = ""
    cluster_id: str = ""
    brokers: tuple[BrokerFacts, ...] = ()
    rights: RightsFacts = RightsFacts()
    own_topics: tuple[OwnTopicFacts, ...] = ()
    quotas: Mapping[QuotaKey, float] | None = None
    quotas_untold: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """This process. `files`: soft and hard limit of open files, -1 for none. `synchronised`: what the kernel says of
    the clock; None where it does not say."""

    files: tuple[int, int]
    synchronised: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFacts:
    """What one gateway's REST API says. `error`: why it does not answer. `failing`: checks of /ready, and why.

    `ahead_s`: by how much its clock is ahead of the one here, with `error_s` of doubt; None: it was not told.
    `files`: how many files its processes have open, and may have; None: not told. `gateways`: state by name.
    `listeners`: HOST:PORT that clients are told, by name.
    `links`: name -> state and error. `untold`: what it refuses to say, and why.
    """

    url: str
    error: str = ""
    version: str = ""
    failing: Mapping[str, str] = field(default_factory=dict)
    ahead_s: float | None = None
    error_s: float = 0.0
    files: tuple[int, int] | None = None
    target_cluster_id: str = ""
    leader: str = ""
    trouble: str = ""
    listeners: Mapping[str, str] = field(default_factory=dict)
    gateways: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    untold: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFacts:
    """A port that a gateway with these settings listens on. `error`: why it could not; '' when it could."""

    option: str
    host: str
    port: int
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """A certificate in a file that the settings name. `told`: what clients are told, and it must be good for."""

    option: str
    path: str
    certificate: CertificateFacts
    told: tuple[str, ...] = ()
