"""Every verb asked twice: what it answers then, and that nothing is changed by it. docs/cli.md has the table."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest

from gateway.fleet.views import Gateways
from gateway.kafka.groups import GroupView, MemberView
from gateway.kafka.rules.quota import EntityType, QuotaEntityPart, QuotaKey
from gateway.kafka.rules.scram import ScramCredential, ScramKey, ScramMechanism
from gateway.migration.rules.file import parsed
from gateway.state.records import GroupState, MirrorDirection, MirrorError, MirrorState
from gateway.telemetry.metrics import Metrics
from tests.support.control.control_plane import SOURCE, Plane
from tests.support.control.group_scene import GroupScene, gated_group
from tests.support.control.mirror_records import changed
from tests.support.control.shared_app import shared_app
from tests.support.fakes.fake_engine import status
from tests.support.registries.registry_pair import RegistryPair
from tests.support.waiting import wait_until_async
from tests.unit.fleet.test_registry import Book

DOCS: Final = Path(__file__).parents[3] / "docs" / "cli.md"
S = MirrorState
CREDENTIAL: Final = {
    "name": "alice",
    "mechanism": "SCRAM-SHA-256",
    "iterations": 4096,
    "salt": "MDEyMzQ1Njc4OWFiY2RlZg==",
    "salted_password": "A" * 43 + "=",
}


class Verb(NamedTuple):
    """`asked`: method, path, body. `again`: the status of the second answer, and words of it. `prepare`: what must be
    there before. `done`: what the first one has come to, if it goes on behind its answer. `said`: in docs/cli.md."""

    asked: tuple[str, str, Any]
    again: tuple[int, str]
    said: str
    prepare: Callable[[Plane], Awaitable[object]]
    done: Callable[[Plane], bool] = lambda plane: True


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


LINK: Final = {"link_name": "l", "configs": [{"name": "bootstrap.servers", "value": SOURCE}]}
ONE: Final = "/v3/links/l/mirrors/orders"
ACK: Final = {"data": [{"name": "ack", "value": "both"}]}
NAMED: Final = {"mirror_topic_names": ["orders"]}
MIGRATION: Final = {"migration": "m", "link": "l", "applications": [{"name": "a", "topics": ["nosuch"]}]}
GONE: Final = "refused (404): it is gone"

VERBS: Final[Mapping[str, Verb]] = {
    "link create": Verb(("POST", "/v3/links", LINK), (409, "exists already"), "refused (409): it exists", nothing),
    "link configuration update": Verb(
        ("PUT", "/v3/links/l/configs:alter", ACK), (200, '"ack":"both"'), "done: the value is the same", link
    ),
    "link pause": Verb(("POST", "/v3/links/l:pause", None), (200, "PAUSED"), "done: it stays PAUSED", mirror),
    "link resume": Verb(("POST", "/v3/links/l:resume", None), (200, "ACTIVE"), "done: it goes on", paused_link),
    "link delete": Verb(("DELETE", "/v3/links/l", None), (404, "does not exist"), GONE, link),
    "users apply": Verb(
        ("POST", "/v3/links/l/users:apply", {"credentials": [CREDENTIAL]}),
        (200, '"PRESENT":1'),
        "done: those that are there stay as they are",
        users_and_quotas,
    ),
    "quotas apply": Verb(
        ("POST", "/v3/links/l/quotas:apply", {"factor": 2}),
        (200, '"SAME":1'),
        "done: what is the same is not set again",
        users_and_quotas,
    ),
    "link schemas sync": Verb(
        ("POST", "/v3/links/l/schemas:sync", None), (200, '"change_count":0'), "done: there is nothing new", schemas
    ),
    "link schemas promote": Verb(
        ("POST", "/v3/links/l/schemas:promote", None),
        (200, '"promoted_count":1'),
        "done: subjects that are promoted stay so, later ones are promoted, too",
        schemas,
    ),
    "mirror create": Verb(
        ("POST", "/v3/links/l/mirrors", {"source_topic_name": "orders"}),
        (409, "is already a mirror"),
        "refused (409): it is a mirror topic already; a create that was begun is gone on with",
        source_topic,
    ),
    "mirror pause": Verb(
        ("POST", f"{ONE}:pause", None), (409, "is already PAUSED"), "refused (409): it is PAUSED already", mirror
    ),
    "mirror resume": Verb(
        ("POST", f"{ONE}:resume", None), (409, "is not paused"), "refused (409): it is not paused", paused
    ),
    "`POST …/mirrors:pause`": Verb(
        ("POST", "/v3/links/l/mirrors:pause", NAMED), (200, "PAUSED"), "done: those that are PAUSED stay so", mirror
    ),
    "`POST …/mirrors:resume`": Verb(
        ("POST", "/v3/links/l/mirrors:resume", NAMED), (200, "ACTIVE"), "done: those that are ACTIVE stay so", paused
    ),
    "mirror promote": Verb(
        ("POST", f"{ONE}:promote", None),
        (409, "is promoted already (STOPPED)"),
        "refused (409): it is being promoted, or written on the target already, mirrored back or not; the command says "
        "so, and sends nothing",
        mirror,
        state(S.STOPPED),
    ),
    "mirror promote --failback": Verb(
        ("POST", f"{ONE}:promote", {"mirror_direction": "REVERSE"}),
        (409, "is being promoted"),
        "refused (409): it is on its way home, or written on the source already; the command says so, and sends "
        "nothing",
        mirrored_back,
        state(S.PENDING_STOPPED, reverse=True),
    ),
    "mirror promote --rehearse": Verb(
        ("POST", "/v3/links/l/mirrors:rehearse-promote", NAMED),
        (200, '"reached":true'),
        "done: it is rehearsed again",
        mirror,
    ),
    "mirror promote --cancel": Verb(
        ("POST", "/v3/links/l/mirrors:cancel-promote", NAMED),
        (409, "is not being promoted: it is ACTIVE"),
        "refused (409): it is not being promoted any more, with what it is; while it is on its way back: done",
        being_promoted,
        state(S.ACTIVE),
    ),
    "mirror failover": Verb(
        ("POST", f"{ONE}:failover", None), (409, "is STOPPED already"), "refused (409): it is STOPPED", mirror
    ),
    "mirror undo": Verb(
        ("POST", "/v3/links/l/mirrors:undo", NAMED),
        (409, "is on its way home already"),
        "refused (409): it is on its way home, or written on the source already",
        mirrored_back,
        state(S.PENDING_STOPPED, reverse=True),
    ),
    "mirror reverse": Verb(
        ("POST", f"{ONE}:reverse-and-start-mirror", None),
        (409, "is mirrored back already"),
        "refused (409): it is being reversed, or mirrored back already",
        stopped,
        state(S.ACTIVE, reverse=True),
    ),
    "mirror truncate-and-restore": Verb(
        ("POST", f"{ONE}:truncate-and-restore", None),
        (409, "is not STOPPED"),
        "refused (409): it is being restored, or mirrored back already. Nothing is deleted twice",
        stopped,
        state(S.ACTIVE, reverse=True),
    ),
    "mirror repair": Verb(
        ("POST", f"{ONE}:repair", None), (409, "has not FAILED"), "refused (409): there is nothing to repair", failed
    ),
    "mirror repair --action recreate": Verb(
        ("POST", f"{ONE}:recreate", None),
        (409, "has not FAILED"),
        "refused (409): it has not FAILED any more. Its copy is not deleted twice",
        failed,
        lambda plane: plane.store.mirrors["l", "orders"].created and state(S.ACTIVE)(plane),
    ),
    "mirror delete": Verb(("DELETE", f"{ONE}?force=true", None), (404, "no mirror topic"), GONE, mirror),
    "group create": Verb(
        ("POST", "/v3/links/l/groups", {"group": "g"}),
        (409, "is already a mirror group"),
        "refused (409): it is a mirror group already",
        source_group,
    ),
    "group promote": Verb(
        ("POST", "/v3/links/l/groups/g:promote", None),
        (409, "is promoted already"),
        "refused (409): it is PROMOTED. Its offsets are not carried over again",
        group,
        lambda plane: plane.store.groups["l", "g"].state is GroupState.PROMOTED,
    ),
    "group demote": Verb(
        ("POST", "/v3/links/l/groups/g:demote", None),
        (409, "is ACTIVE, not PROMOTED"),
        "refused (409): it is ACTIVE",
        promoted_group,
    ),
    "group remove-members": Verb(
        ("POST", "/v3/links/l/groups/g:remove-members", None),
        (200, '"data":[]'),
        "done: who is out of the group stays so",
        group,
    ),
    "migration apply": Verb(
        ("PUT", "/v3/migrations/m", MIGRATION),
        (200, "RUNNING"),
        "done: the same file stays the one that counts; another state than RUNNING becomes it again",
        link,
    ),
    "migration pause": Verb(
        ("POST", "/v3/migrations/m:pause", None),
        (409, "is PAUSED, not RUNNING"),
        "refused (409): it is PAUSED",
        applied,
    ),
    "migration resume": Verb(
        ("POST", "/v3/migrations/m:resume", None),
        (409, "is RUNNING, not PAUSED"),
        "refused (409): it is RUNNING",
        paused_migration,
    ),
    "migration abort": Verb(
        ("POST", "/v3/migrations/m:abort", None), (409, "is ABORTED"), "refused (409): it is ABORTED", applied
    ),
    "migration rehearse": Verb(
        ("POST", "/v3/migrations/m:rehearse", None), (200, '"applications"'), "done: it is rehearsed again", applied
    ),
    "migration undo": Verb(
        ("POST", "/v3/migrations/m:undo", None),
        (409, "is on its way home already"),
        "refused (409): it is on its way home, or there is nothing to undo any more",
        promoted_migration,
        state(S.PENDING_STOPPED, reverse=True),
    ),
    "migration delete": Verb(("DELETE", "/v3/migrations/m", None), (404, "no migration 'm'"), GONE, aborted_migration),
    "gateway forget": Verb(("DELETE", "/v3/gateways/b", None), (404, "has no gateway 'b'"), GONE, nothing),
}


@pytest.fixture
async def api(plane: Plane):
    book = Book(plane)
    await book.generation("a", "b")
    await book.generation("a")
    fleet = Gateways("a", plane.store, book.registry, dict)
    app = shared_app(lambda: plane.service, Metrics(), fleet=lambda: fleet)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gw") as client:
        yield client


@pytest.mark.parametrize("name", VERBS)
async def test_asked_again(api: httpx.AsyncClient, plane: Plane, name: str) -> None:
    verb = VERBS[name]
    await verb.prepare(plane)
    method, path, body = verb.asked
    first = await api.request(method, path, json=body)
    assert first.status_code < 300, first.text
    await wait_until_async(lambda: verb.done(plane), 10, what=f"{name} to be done")

    store = plane.store
    before = dict(store.links), dict(store.mirrors), dict(store.groups), dict(store.gateways), store.applied
    second = await api.request(method, path, json=body)
    expected, words = verb.again
    assert (second.status_code, words in second.text) == (expected, True), second.text
    assert (dict(store.links), dict(store.mirrors), dict(store.groups), dict(store.gateways), store.applied) == before


def test_the_page_says_so() -> None:
    page = DOCS.read_text(encoding="utf-8")
    rows = [f"| {name if name.startswith('`') else f'`{name}`'} | {verb.said} |" for name, verb in VERBS.items()]
    table = [line for line in page.partition("## Asked again")[2].partition("\n## ")[0].splitlines() if "|" in line]
    assert table[2:] == rows
