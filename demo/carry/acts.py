"""The acts: an application on the source, a link that brings along what it depends on, the move, the promote."""

from __future__ import annotations

from functools import partial

from demo.carry.brokers import asked, give, make_users, take_away
from demo.carry.orders import FIRST, KEY, KEYS, SECOND, VALUES, text_of
from demo.carry.registries import SOURCE_KIND, TARGET_KIND, Registries, fetch
from demo.carry.rights import APP, CLIENTS, GIVEN, OF_CLIENTS, OF_THE_GATEWAY, OF_THE_LINK, QUOTAS, TAKEN_AWAY
from demo.carry.run import CarryRun
from demo.carry.settings import (
    GROUP,
    LINK,
    REGISTRY_FETCHED_S,
    REGISTRY_UP_S,
    SHARE_GROUP,
    SHARED_S,
    STATES_S,
    TOPIC,
)
from demo.clients.common import now_ms
from demo.clusters import create_topic, start
from demo.errors import DemoError
from demo.fleet import Client
from demo.history import Side
from demo.settings import (
    CLIENT_STARTED_S,
    CLIENT_STOPPED_S,
    CLUSTER_UP_S,
    COMMAND_S,
    GATEWAY_UP_S,
    GROUP_PROMOTED_S,
    TOPIC_PROMOTED_S,
)
from gateway.kafka.access.quotas import set_quotas
from gateway.kafka.share_groups import alter_share_offsets

_GROUPS = (GROUP, SHARE_GROUP)


def prepare(run: CarryRun) -> None:
    """Two clusters, two registries, and an application on the source."""
    with run.view.step("Start two clusters that ask who somebody is") as step:
        clusters = (run.source, run.target)
        run.at_once([partial(start, cluster) for cluster in clusters], "the clusters to start", CLUSTER_UP_S + 10)
        step.note = f"Kafka {run.settings.kafka} with SCRAM and StandardAuthorizer"
    with run.view.step("Start two schema registries") as step:
        run.in_background(fetch, "Maven to bring the registry", REGISTRY_FETCHED_S)
        run.registries = Registries(run.logs)
        run.until(run.registries.source.is_there, "the registry", REGISTRY_UP_S)
        step.note = f"source: {SOURCE_KIND}; target: {TARGET_KIND}"
    with run.view.step("Give the application users, ACLs, quotas, schemas and a topic on the source") as step:
        run.in_background(partial(_equip, run), "the source to be ready", COMMAND_S)
        step.note = f"{len(OF_CLIENTS)} ACLs, {len(QUOTAS)} quotas, {len(CLIENTS)} clients with a user each"
    with run.view.step("Start two producers, a consumer group and a share group on the source"):
        for client in run.fleet.clients:
            run.start_client(client, Side.SOURCE)
        run.until(lambda: all(p.acknowledged for p in run.fleet.producers), "every first record", CLIENT_STARTED_S)
        run.until(lambda: all(m.read_here for m in run.fleet.members()), "every member to read", SHARED_S)


def link(run: CarryRun) -> None:
    """The gateway, the link, the mirror; users and quotas; ACLs and schemas that go on changing on the source."""
    with run.view.step("Start the gateway, create the link and the mirror topic"):
        run.gateway = gateway = run.describe_gateway()
        gateway.start()
        run.until(gateway.healthy, "the gateway to be healthy", GATEWAY_UP_S)
        run.command("link", "create", LINK, *run.link_options())
        run.command("mirror", "create", TOPIC, "--link", LINK)
        run.until(lambda: _is_level(run), f"{TOPIC} to be level", STATES_S)
    with run.view.step("Make the users on the target, with new secrets, and copy the quotas") as step:
        made = run.command("users", "apply", "--link", LINK, "--secrets", f"${{dir:{run.secrets}:*}}")
        copied = run.command("quotas", "apply", "--link", LINK)
        step.note = f"{_last(made)}; {_last(copied)}"
    with run.view.step("Change an ACL and a schema on the source: they follow") as step:
        run.in_background(partial(_change, run), "the changes", COMMAND_S)
        run.until(lambda: _follow(run), "ACLs and schemas to be the same", STATES_S)
        step.note = f"{len(run.registry(Side.TARGET).content())} subjects"


def move(run: CarryRun) -> None:
    """One rolling restart: another address, another password, another registry."""
    for producer in run.fleet.producers:
        with run.view.step(f"Restart {producer.part.name} onto the gateway"):
            stop(run, [producer])
            run.start_client(producer, Side.TARGET, version=1 if producer.part.name == APP else 0)
            run.until(lambda producer=producer: producer.acknowledged > 0, "its first record", CLIENT_STARTED_S)  # type: ignore[misc]
    for group in _GROUPS:
        for member in run.fleet.members(group):
            with run.view.step(f"Restart {member.part.name} of {group} onto the gateway"):
                stop(run, [member])
                run.start_client(member, Side.TARGET)
                run.until(lambda member=member: member.started, "it to start", CLIENT_STARTED_S)  # type: ignore[misc]
    with run.view.step("The groups promote by themselves") as step:
        run.until(lambda: all(m.read_here for m in run.fleet.members()), "every member to read", GROUP_PROMOTED_S * 2)
        step.note = f"{SHARE_GROUP}: {run.group(SHARE_GROUP)[1]} records are delivered again"
    _traffic(run, "while the topic is mirrored")


def promote(run: CarryRun) -> None:
    """The topic, then the schemas."""
    with run.view.step("Promote the topic under load"):
        run.promoted_ms = now_ms()
        run.command("mirror", "promote", TOPIC, "--link", LINK, "--yes", "--wait", timeout_s=TOPIC_PROMOTED_S)
        run.until(lambda: run.mirror()[0] == "STOPPED", f"{TOPIC} to be STOPPED", STATES_S)
    with run.view.step("Promote the schemas: clients register on the target's registry") as step:
        step.note = _last(run.command("link", "schemas", "promote", LINK, timeout_s=STATES_S))
    _traffic(run, "on the target")


def _equip(run: CarryRun) -> None:
    """All that the application has, on the source; on the target, what the gateway needs."""
    source, target = ((run.cluster(side).bootstrap, run.access[side]) for side in Side)
    make_users(*source, run.passwords[Side.SOURCE])
    give(*source, (*OF_CLIENTS, *OF_THE_LINK))
    give(*target, OF_THE_GATEWAY)
    refused = asked(*source, lambda cluster: set_quotas(cluster, QUOTAS))
    if refused:
        raise DemoError(f"quotas on the source: {refused}")
    create_topic(run.source.bootstrap, TOPIC, run.settings.partitions, access=run.access[Side.SOURCE])
    starts = {(TOPIC, partition): 0 for partition in range(run.settings.partitions)}
    asked(*source, lambda cluster: alter_share_offsets(cluster, SHARE_GROUP, starts))
    registry = run.registry(Side.SOURCE)
    for size in (1, 2):
        registry.register("parcels-value", text_of({"type": "fixed", "name": "Parcel", "size": size}))
    registry.delete("parcels-value", 1)
    registry.register(KEYS, text_of(KEY))
    registry.register(VALUES, text_of(FIRST))
    registry.set_level(VALUES, "FULL")  # the default of neither registry


def _change(run: CarryRun) -> None:
    source = run.source.bootstrap, run.access[Side.SOURCE]
    give(*source, [GIVEN])
    take_away(*source, TAKEN_AWAY)
    run.registry(Side.SOURCE).register(VALUES, text_of(SECOND))


def _follow(run: CarryRun) -> bool:
    """Both syncs have nothing left to do, and the target's registry knows the newest schema."""
    acls, schemas = run.told("/acl-plan"), run.told("/schema-plan")
    if acls["create_count"] or acls["delete_count"] or schemas["change_count"] or schemas["state"] != "ACTIVE":
        return False
    return len(run.registry(Side.TARGET).content().get(VALUES, {})) == 2


def _is_level(run: CarryRun) -> bool:
    _, lag = run.mirror()
    return lag is not None and lag <= 100


def _traffic(run: CarryRun, where: str) -> None:
    """Some seconds of it, in which every producer must be acknowledged and every group must read."""
    with run.view.step(f"Traffic {where}"):
        written = {client.part.name: client.acknowledged for client in run.fleet.producers}
        read = {group: sum(member.read for member in run.fleet.members(group)) for group in _GROUPS}
        run.pause(run.settings.traffic_s)
        run.until(
            lambda: (
                all(client.acknowledged > written[client.part.name] for client in run.fleet.producers)
                and all(sum(member.read for member in run.fleet.members(group)) > read[group] for group in _GROUPS)
            ),
            "everybody to go on",
            CLIENT_STARTED_S,
        )


def stop(run: CarryRun, clients: list[Client]) -> None:
    """In order, all at once."""
    for client in clients:
        client.ask_to_stop()
    for client in clients:
        run.until(client.ended, f"{client.part.name} to stop", CLIENT_STOPPED_S)


def _last(output: str) -> str:
    """The summary that a command ends with."""
    return (output.strip().splitlines() or [""])[-1]
