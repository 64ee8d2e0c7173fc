"""What must be there before a verb is asked for (`verbs.py`): each makes it in a control plane without Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from gateway.kafka.groups import GroupView, MemberView
from gateway.kafka.rules.quota import EntityType, QuotaEntityPart, QuotaKey
from gateway.kafka.rules.scram import ScramCredential, ScramKey, ScramMechanism
from gateway.migration.rules.file import parsed
from gateway.state.records import MirrorDirection, MirrorError, MirrorState
from tests.support.control.control_plane import Plane
from tests.support.control.group_scene import GroupScene, gated_group
from tests.support.control.mirror_records import changed
from tests.support.fakes.fake_engine import status
from tests.support.registries.registry_pair import RegistryPair

S = MirrorState
CREDENTIAL: Final = {
    "name": "alice",
    "mechanism": "SCRAM-SHA-256",
    "iterations": 4096,
    "salt": "MDEyMzQ1Njc4OWFiY2RlZg==",
    "salted_password": "A" * 43 + "=",
}

MIGRATION: Final = {"migration": "m", "link": "l", "applications": [{"name": "a", "topics": ["nosuch"]}]}


async def nothing(plane: Plane) -> None:
    """No link yet."""


async def link(plane: Plane) -> None:
    await plane.with_link()


async def schemas(plane: Plane) -> None:
    pair = RegistryPair(plane)
    pair.source.add("orders-value", {"type": "string"})
    await pair.linked()


async def mirror(plane: Plane) -> None:
    await plane.with_mirror()
    await plane.by_hand(replace(plane.store.mirrors["l", "orders"], readable=True))
    plane.engine.numbers["l", "orders"] = [status(partition) for partition in range(3)]


async def users_and_quotas(plane: Plane) -> None:
    await plane.with_link()
    alice = ScramKey("alice", ScramMechanism.SHA_256)
    plane.source.scram = {alice: ScramCredential(alice, 4096, b"s", b"p")}
    plane.source.quotas_there = {QuotaKey((QuotaEntityPart(EntityType.USER, "alice"),), "producer_byte_rate"): 1.0}


async def source_topic(plane: Plane) -> None:
    await plane.with_link()
    plane.source.add("orders")


async def paused_link(plane: Plane) -> None:
    await mirror(plane)
    await plane.service.link_updates.pause("l")


async def paused(plane: Plane) -> None:
    await mirror(plane)
    await plane.service.mirrors.pause("l", "orders")


async def stopped(plane: Plane) -> None:
    await mirror(plane)
    for cluster in (plane.source, plane.target):
        cluster.existing["orders"].ranges = [(0, 100)] * 3
    done = changed(plane.store.mirrors["l", "orders"], state=S.STOPPED, stopped_at=(100,) * 3)
    await plane.by_hand(changed(done, stopped_copy_at=(100,) * 3, restore_configs={}))
    await plane.parts.engine.stop_mirror("l", "orders")


async def being_promoted(plane: Plane) -> None:
    await mirror(plane)
    await plane.by_hand(changed(plane.store.mirrors["l", "orders"], state=S.PENDING_STOPPED))


async def failed(plane: Plane) -> None:
    await mirror(plane)
    record = plane.store.mirrors["l", "orders"]
    await plane.by_hand(replace(record, state=S.FAILED, error=MirrorError.AUTHORIZATION_ERROR))


async def source_group(plane: Plane) -> None:
    await plane.with_mirror()
    member = MemberView(member_id="m", client_id="app", host="h", subscribed=frozenset({"orders"}))
    plane.source.groups["g"] = GroupView(
        group="g", state="Stable", type="classic", protocol_type="consumer", members=(member,)
    )


async def group(plane: Plane) -> GroupScene:
    """With real promotes and demotes."""
    scene = await gated_group(plane)
    plane.service.groups._promoter = scene.promoter
    return scene


async def mirrored_back(plane: Plane) -> None:
    """And its way home lasts."""
    record = await plane.with_mirror()
    await plane.by_hand(changed(record, direction=MirrorDirection.REVERSE, stopped_at=(100,) * 3))
    plane.promoters.gate = asyncio.Event()


async def promoted_migration(plane: Plane) -> None:
    await mirrored_back(plane)
    file = MIGRATION | {"applications": [{"name": "a", "topics": ["orders"]}]}
    await plane.service.migrations.apply(parsed(file), "ann")


async def promoted_group(plane: Plane) -> None:
    await (await group(plane)).promoted()


async def applied(plane: Plane) -> None:
    await link(plane)
    await plane.service.migrations.apply(parsed(MIGRATION), "ann")


async def paused_migration(plane: Plane) -> None:
    await applied(plane)
    await plane.service.migrations.pause("m", "ann")


async def aborted_migration(plane: Plane) -> None:
    await applied(plane)
    await plane.service.migrations.abort("m", "ann")


def state(wanted: MirrorState, *, reverse: bool = False) -> Callable[[Plane], bool]:
    def is_there(plane: Plane) -> bool:
        record = plane.store.mirrors["l", "orders"]
        return record.state is wanted and record.is_reverse is reverse

    return is_there
