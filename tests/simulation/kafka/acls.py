"""DescribeAcls, CreateAcls and DeleteAcls (KIP-140) of a cluster with an authorizer; others answer SECURITY_DISABLED.

The authorizer of the model keeps a set, and forbids nobody anything: what is simulated is who makes and deletes what,
and when it is seen. A change is made at the controller; each broker describes what it has heard of, a moment later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.messages import CreateAclsResponse, DeleteAclsResponse, DescribeAclsResponse
from tests.simulation.kafka.broker import Broker, Request, handles

TOPIC: Final = 2
GROUP: Final = 3
LITERAL: Final = 3
READ, WRITE, DESCRIBE = 3, 4, 8
DENY, ALLOW = 2, 3
_ANY: Final = 1
_WHY: Final = "No Authorizer is configured."
_FAILED: Final = int(ErrorCode.UNKNOWN_SERVER_ERROR)
"""As of an authorizer that has thrown."""


class Acl(NamedTuple):
    """By the numbers of the protocol."""

    resource_type: int
    name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        what = {READ: "READ", WRITE: "WRITE", DESCRIBE: "DESCRIBE"}.get(self.operation, str(self.operation))
        how = "DENY" if self.permission == DENY else "ALLOW"
        return f"{how} {self.principal} from {self.host}: {what} on {self.name}"


def _nothing(acl: Acl) -> bool:
    del acl
    return False


class Authorizer:
    """Of one cluster. `acls`: as the controller has them. `refuses`: those that are not made, as when it fails, and
    `keeps`: those that are not deleted; each entry is asked about for itself.

    `on_change`: told of each change, with what there was before.
    """

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self.acls = set(acls)
        self.refuses: Callable[[Acl], bool] = _nothing
        self.keeps: Callable[[Acl], bool] = _nothing
        self.on_change: list[Callable[[frozenset[Acl]], None]] = []
        self._heard: dict[int, frozenset[Acl]] = {}  # broker -> what it has heard of, if not of all
        self._changes = 0

    def change(self, cluster: Any, add: Iterable[Acl] = (), take: Iterable[Acl] = ()) -> None:
        """At the controller: brokers hear of it after the delay of the cluster's metadata."""
        before = frozenset(self.acls)
        self.acls.difference_update(take)
        self.acls.update(add)
        self._changes += 1
        for broker in cluster.brokers:
            self._heard.setdefault(broker, before)
            cluster.controller_later(cluster.metadata_delay_s, self._hear, broker, frozenset(self.acls), self._changes)
        for hook in self.on_change:
            hook(before)

    def _hear(self, broker: int, acls: frozenset[Acl], number: int) -> None:
        self._heard[broker] = acls
        if number == self._changes:
            del self._heard[broker]

    def seen_by(self, broker: int) -> Iterable[Acl]:
        """What a broker describes."""
        return self._heard.get(broker, self.acls)


@handles(ApiKey.DESCRIBE_ACLS)
async def describe_acls(broker: Broker, request: Request) -> Any:
    """Those that fit, by resource."""
    authorizer, wanted = broker.cluster.authorizer, request.message
    if authorizer is None:
        return DescribeAclsResponse(error_code=int(ErrorCode.SECURITY_DISABLED), error_message=_WHY, resources=[])
    found: dict[tuple[int, str, int], list[Any]] = defaultdict(list)
    described = DescribeAclsResponse.DescribeAclsResource
    for acl in sorted(authorizer.seen_by(broker.id)):
        if _fits(acl, *_filter(wanted)):
            shown = described.AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
            )
            found[acl.resource_type, acl.name, acl.pattern_type].append(shown)
    resources = [
        described(resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls)
        for (kind, name, pattern), acls in found.items()
    ]
    return DescribeAclsResponse(error_code=0, error_message=None, resources=resources)


@handles(ApiKey.CREATE_ACLS)
async def create_acls(broker: Broker, request: Request) -> Any:
    """One that is there already is no error."""
    authorizer, answer = broker.cluster.authorizer, CreateAclsResponse.AclCreationResult
    if authorizer is None:
        refused = [
            answer(error_code=int(ErrorCode.SECURITY_DISABLED), error_message=_WHY) for _ in request.message.creations
        ]
        return CreateAclsResponse(results=refused)
    made = [
        Acl(
            one.resource_type,
            one.resource_name,
            one.resource_pattern_type,
            one.principal,
            one.host,
            one.operation,
            one.permission_type,
        )
        for one in request.message.creations
    ]
    failing = {acl for acl in made if authorizer.refuses(acl)}
    there = [acl for acl in made if acl not in failing]
    authorizer.change(broker.cluster, add=there)
    broker.cluster.trace(f"{request.client_id} makes ACLs: {'; '.join(map(str, there))}")
    return CreateAclsResponse(
        results=[answer(error_code=_FAILED if acl in failing else 0, error_message=None) for acl in made]
    )


@handles(ApiKey.DELETE_ACLS)
async def delete_acls(broker: Broker, request: Request) -> Any:
    """By filters; one that fits nothing is no error."""
    authorizer, answer = broker.cluster.authorizer, DeleteAclsResponse.DeleteAclsFilterResult
    if authorizer is None:
        code = int(ErrorCode.SECURITY_DISABLED)
        refused = [answer(error_code=code, error_message=_WHY, matching_acls=[]) for _ in request.message.filters]
        return DeleteAclsResponse(filter_results=refused)
    results, gone = [], set[Acl]()
    for wanted in request.message.filters:
        fitting = {acl for acl in authorizer.acls if _fits(acl, *_filter(wanted))}
        failing = {acl for acl in fitting if authorizer.keeps(acl)}
        gone |= fitting - failing
        matching = [
            answer.DeleteAclsMatchingAcl(
                error_code=_FAILED if acl in failing else 0,
                error_message=None,
                resource_type=acl.resource_type,
                resource_name=acl.name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in sorted(fitting)
        ]
        results.append(answer(error_code=0, error_message=None, matching_acls=matching))
    authorizer.change(broker.cluster, take=gone)
    broker.cluster.trace(f"{request.client_id} deletes ACLs: {'; '.join(map(str, sorted(gone)))}")
    return DeleteAclsResponse(filter_results=results)


def _filter(wanted: Any) -> tuple[Any, ...]:
    return (
        wanted.resource_type_filter,
        wanted.resource_name_filter,
        wanted.pattern_type_filter,
        wanted.principal_filter,
        wanted.host_filter,
        wanted.operation,
        wanted.permission_type,
    )


def _fits(acl: Acl, *wanted: Any) -> bool:
    """None and ANY fit all. `MATCH` of patterns is not asked of the model."""
    any_of = (_ANY, None, _ANY, None, None, _ANY, _ANY)
    return all(want in (has, every) for has, want, every in zip(acl, wanted, any_of, strict=True))
