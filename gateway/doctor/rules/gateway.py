"""A gateway as it says itself, and the target as it is seen through it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.doctor.rules.cluster import check_logins, check_ways, unasked
from gateway.doctor.rules.facts import GatewayFacts, SeenCluster
from gateway.doctor.rules.finding import DoctorFinding, bad, many, ok, warn
from gateway.doctor.rules.machine import FULL, check_clock
from gateway.kafka.rules.names import some_of

_READY: Final = {
    "target": "bring the target back, or mend the gateway's login there: the lines of the target say which",
    "lease": "see that the gateway reaches the target, and the other gateways: lockgate gateway list",
    "state": "see the own topics of the target, above",
    "listeners": "see that nobody else has the ports: the gateway's log names them",
}
"""What helps when a check of /ready fails."""


def check_gateway(facts: GatewayFacts, version: str, *, expected: bool) -> Iterator[DoctorFinding]:
    """All that it says of itself.

    Args:
        version: of the one who asks.
        expected: somebody has asked for it; else it may well not run yet.
    """
    if facts.error:
        remedy = "start it (lockgate serve --config FILE), or name its API with --url, and its token with --token-file"
        value = f"no answer from {facts.url}: {facts.error}"
        yield bad("gateway", "gateway", value, remedy) if expected else warn("gateway", "gateway", value, remedy)
        return
    yield from _ready(facts)
    yield from check_clock(facts)
    yield from _version(facts, version)
    yield from _files(facts)
    yield from _fleet(facts)
    for name, (state, error) in sorted(facts.links.items()):
        yield _link(name, state, error)
    for question, why in facts.untold.items():
        yield warn(
            "gateway", "gateway", f"{question} not told ({why})", "ask with a token of the role viewer: --token-file"
        )


def _ready(facts: GatewayFacts) -> Iterator[DoctorFinding]:
    for check, why in sorted(facts.failing.items()):
        yield bad("ready", "gateway", f"{check}: {why}", _READY.get(check, "see the gateway's log"))
    if not facts.failing:
        yield ok("ready", "gateway", f"{facts.url} serves")


def _version(facts: GatewayFacts, version: str) -> Iterator[DoctorFinding]:
    if facts.version and facts.version != version:
        yield warn(
            "versions",
            "gateway",
            f"it is {facts.version}, this command {version}",
            "ask with the command of the gateway's version",
        )


def _files(facts: GatewayFacts) -> Iterator[DoctorFinding]:
    if facts.files is None:
        return
    there, most = facts.files
    value = f"{there} of {most} files are open"
    if most > 0 and there >= FULL * most:
        yield bad(
            "files",
            "gateway",
            value,
            "clients are refused soon: raise LimitNOFILE (systemd) or --ulimit nofile (a container), and restart it",
        )
    else:
        yield ok("files", "gateway", value)


def _fleet(facts: GatewayFacts) -> Iterator[DoctorFinding]:
    if facts.trouble:
        yield bad(
            "fleet", "gateway", facts.trouble, "see that the gateway reaches the target: its lease ends meanwhile"
        )
    elif not facts.leader and facts.version:
        yield bad(
            "fleet",
            "gateway",
            "nobody leads",
            "see that a gateway of the role node runs, and that the target can be written",
        )
    absent = sorted(name for name, state in facts.gateways.items() if state != "up")
    if absent:
        yield warn(
            "fleet",
            "gateway",
            f"not heard: {some_of(absent)}",
            "start it again; of one that is gone for good: lockgate gateway forget NAME",
        )
    elif facts.gateways:
        count = len(facts.gateways)
        yield ok("fleet", "gateway", f"{count} gateway{'' if count == 1 else 's'} up, {facts.leader} leads")


def _link(name: str, state: str, error: str) -> DoctorFinding:
    if error:
        return bad(
            "link",
            f"source {name}",
            f"the gateway says: {state}: {error}",
            f"see the lines of this source; then lockgate link describe {name}",
        )
    return ok("link", f"source {name}", f"the gateway says: {state}")


def check_through(
    through: SeenCluster, target: SeenCluster | None, target_id: str, now: float
) -> Iterator[DoctorFinding]:
    """The target through a gateway's listener, beside the target itself.

    Args:
        target: as it was seen directly; None or with an error: it was not.
        target_id: its id as the gateway says; '' when it says none.
        now: seconds since the epoch.
    """
    brokers = through.brokers
    yield from check_ways(through, now)
    if through.unasked:
        yield unasked(through)
        return
    if through.error:
        remedy = "see the lines above; give a client's own properties with --through FILE where a listener wants them"
        yield bad("login" if through.refused else "listener", through.name, through.error, remedy)
        return
    yield from check_logins(through.name, brokers)
    seen = target if target is not None and not target.error else None
    wanted_id = seen.cluster_id if seen is not None else target_id
    if wanted_id and through.cluster_id != wanted_id:
        yield bad(
            "listener",
            through.name,
            f"it leads to cluster {through.cluster_id or 'without an id'}, and the target is {wanted_id}",
            "name the listener of a gateway before this target, or the settings of this gateway",
        )
    elif seen is not None and {one.node_id for one in seen.brokers} != {one.node_id for one in brokers}:
        yield warn(
            "listener",
            through.name,
            f"it tells of broker {_nodes(through)}, the target of {_nodes(seen)}",
            "a broker came or went a moment ago: ask again; else see the gateway's log",
        )
    else:
        yield ok("listener", through.name, f"cluster {through.cluster_id}, {many(len(brokers), 'broker')}")


def _nodes(facts: SeenCluster) -> str:
    return some_of(str(broker.node_id) for broker in facts.brokers)
