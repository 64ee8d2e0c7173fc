"""Every verb that changes something, once: how it is asked, what must be there before, what a dry run says, and what it
answers when it is asked again. Tests ask each of them; the tables of docs/reference/cli.md are made from this one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import httpx

from gateway.fleet.views import Gateways
from gateway.state.records import GroupState, MirrorState
from gateway.telemetry.metrics import Metrics
from tests.support.control.control_plane import SOURCE, Plane
from tests.support.control.shared_app import shared_app
from tests.support.control.verb_scenes import (
    MIGRATION,
    aborted_migration,
    applied,
    being_promoted,
    failed,
    group,
    link,
    mirror,
    mirrored_back,
    nothing,
    paused,
    paused_link,
    paused_migration,
    promoted_group,
    promoted_migration,
    schemas,
    source_group,
    source_topic,
    state,
    stopped,
    users_and_quotas,
)
from tests.unit.fleet.test_registry import Book

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
    there before. `done`: what the first one has come to, if it goes on behind its answer.

    In docs/reference/cli.md `said` is what it answers when it is asked again, `dry_run` what its dry run says.
    """

    asked: tuple[str, str, Any]
    again: tuple[int, str]
    said: str
    prepare: Callable[[Plane], Awaitable[object]]
    done: Callable[[Plane], bool] = lambda plane: True
    dry_run: str = ""


LINK: Final = {"link_name": "l", "configs": [{"name": "bootstrap.servers", "value": SOURCE}]}
ONE: Final = "/v3/links/l/mirrors/orders"
ACK: Final = {"data": [{"name": "ack", "value": "both"}]}
NAMED: Final = {"mirror_topic_names": ["orders"]}
GONE: Final = "refused (404): it is gone"
OF_ITS_OWN: Final = "is a command of its own"
RIGHTS: Final = "[Rights](../guides/access.md)"
SCHEMAS: Final = "[Schemas](../guides/schemas.md)"
OF_A_GROUP: Final = (
    "what blocks it, what it would wait for, and the offsets that would be carried over. No gate closes or opens"
)

VERBS: Final[Mapping[str, Verb]] = {
    "link create": Verb(
        ("POST", "/v3/links", LINK),
        (409, "exists already"),
        "refused (409): it exists",
        nothing,
        dry_run="whether it would be done; the source is asked",
    ),
    "link configuration update": Verb(
        ("PUT", "/v3/links/l/configs:alter", ACK),
        (200, '"ack":"both"'),
        "done: the value is the same",
        link,
        dry_run="whether it would be done; the source is asked",
    ),
    "link pause": Verb(
        ("POST", "/v3/links/l:pause", None),
        (200, "PAUSED"),
        "done: it stays PAUSED",
        mirror,
        dry_run="whether it would be done",
    ),
    "link resume": Verb(
        ("POST", "/v3/links/l:resume", None),
        (200, "ACTIVE"),
        "done: it goes on",
        paused_link,
        dry_run="whether it would be done",
    ),
    "link delete": Verb(
        ("DELETE", "/v3/links/l", None),
        (404, "does not exist"),
        GONE,
        link,
        dry_run="what would be left, and why it would be refused",
    ),
    "users apply": Verb(
        ("POST", "/v3/links/l/users:apply", {"credentials": [CREDENTIAL]}),
        (200, '"PRESENT":1'),
        "done: those that are there stay as they are",
        users_and_quotas,
        dry_run=f"the secrets are read, and who would be made; `users plan` {OF_ITS_OWN} ({RIGHTS})",
    ),
    "quotas apply": Verb(
        ("POST", "/v3/links/l/quotas:apply", {"factor": 2}),
        (200, '"SAME":1'),
        "done: what is the same is not set again",
        users_and_quotas,
        dry_run=f"which quotas would be set; `quotas plan` {OF_ITS_OWN} ({RIGHTS})",
    ),
    "link schemas sync": Verb(
        ("POST", "/v3/links/l/schemas:sync", None),
        (200, '"change_count":0'),
        "done: there is nothing new",
        schemas,
        dry_run=f"what would be copied, with these ids; `link schemas plan` {OF_ITS_OWN} ({SCHEMAS})",
    ),
    "link schemas promote": Verb(
        ("POST", "/v3/links/l/schemas:promote", None),
        (200, '"promoted_count":1'),
        "done: subjects that are promoted stay so, later ones are promoted, too",
        schemas,
        dry_run="whether something keeps the schemas from their promote",
    ),
    "mirror create": Verb(
        ("POST", "/v3/links/l/mirrors", {"source_topic_name": "orders"}),
        (409, "is already a mirror"),
        "refused (409): it is a mirror topic already; a create that was begun is gone on with",
        source_topic,
        dry_run="what would be created, and how it would be mirrored",
    ),
    "mirror pause": Verb(
        ("POST", f"{ONE}:pause", None),
        (409, "is already PAUSED"),
        "refused (409): it is PAUSED already",
        mirror,
        dry_run="whether each topic's state allows it",
    ),
    "mirror resume": Verb(
        ("POST", f"{ONE}:resume", None),
        (409, "is not paused"),
        "refused (409): it is not paused",
        paused,
        dry_run="whether each topic's state allows it",
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
        dry_run="what blocks it, who has not moved, about how long it needs",
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
        dry_run="which promotes would be rehearsed, or why not",
    ),
    "mirror promote --cancel": Verb(
        ("POST", "/v3/links/l/mirrors:cancel-promote", NAMED),
        (409, "is not being promoted: it is ACTIVE"),
        "refused (409): it is not being promoted any more, with what it is; while it is on its way back: done",
        being_promoted,
        state(S.ACTIVE),
        dry_run="which topics would go back, and which migrations would be paused; or why not",
    ),
    "mirror failover": Verb(
        ("POST", f"{ONE}:failover", None),
        (409, "is STOPPED already"),
        "refused (409): it is STOPPED",
        mirror,
        dry_run="which records would stay behind on the source",
    ),
    "mirror undo": Verb(
        ("POST", "/v3/links/l/mirrors:undo", NAMED),
        (409, "is on its way home already"),
        "refused (409): it is on its way home, or written on the source already",
        mirrored_back,
        state(S.PENDING_STOPPED, reverse=True),
        dry_run="whether each topic can go home now, or why not",
    ),
    "mirror reverse": Verb(
        ("POST", f"{ONE}:reverse-and-start-mirror", None),
        (409, "is mirrored back already"),
        "refused (409): it is being reversed, or mirrored back already",
        stopped,
        state(S.ACTIVE, reverse=True),
        dry_run="what blocks it (its two halves, too): of a STOPPED topic both logs are compared; of one that is "
        "mirrored still, what blocks its promote",
    ),
    "mirror truncate-and-restore": Verb(
        ("POST", f"{ONE}:truncate-and-restore", None),
        (409, "is not STOPPED"),
        "refused (409): it is being restored, or mirrored back already. Nothing is deleted twice",
        stopped,
        state(S.ACTIVE, reverse=True),
        dry_run="which records would be thrown away",
    ),
    "mirror repair": Verb(
        ("POST", f"{ONE}:repair", None),
        (409, "has not FAILED"),
        "refused (409): there is nothing to repair",
        failed,
        dry_run="what would be done",
    ),
    "mirror repair --action recreate": Verb(
        ("POST", f"{ONE}:recreate", None),
        (409, "has not FAILED"),
        "refused (409): it has not FAILED any more. Its copy is not deleted twice",
        failed,
        lambda plane: plane.store.mirrors["l", "orders"].created and state(S.ACTIVE)(plane),
    ),
    "mirror delete": Verb(
        ("DELETE", f"{ONE}?force=true", None), (404, "no mirror topic"), GONE, mirror, dry_run="what would be done"
    ),
    "group create": Verb(
        ("POST", "/v3/links/l/groups", {"group": "g"}),
        (409, "is already a mirror group"),
        "refused (409): it is a mirror group already",
        source_group,
        dry_run="whether the group is there, and nobody's mirror group",
    ),
    "group promote": Verb(
        ("POST", "/v3/links/l/groups/g:promote", None),
        (409, "is promoted already"),
        "refused (409): it is PROMOTED. Its offsets are not carried over again",
        group,
        lambda plane: plane.store.groups["l", "g"].state is GroupState.PROMOTED,
        dry_run=OF_A_GROUP,
    ),
    "group demote": Verb(
        ("POST", "/v3/links/l/groups/g:demote", None),
        (409, "is ACTIVE, not PROMOTED"),
        "refused (409): it is ACTIVE",
        promoted_group,
        dry_run=OF_A_GROUP,
    ),
    "group remove-members": Verb(
        ("POST", "/v3/links/l/groups/g:remove-members", None),
        (200, '"data":[]'),
        "done: who is out of the group stays so",
        group,
        dry_run="who would be removed",
    ),
    "migration apply": Verb(
        ("PUT", "/v3/migrations/m", MIGRATION),
        (200, "RUNNING"),
        "done: the same file stays the one that counts; another state than RUNNING becomes it again",
        link,
        dry_run="the steps that are left, as a diff, and what each waits for",
    ),
    "migration pause": Verb(
        ("POST", "/v3/migrations/m:pause", None),
        (409, "is PAUSED, not RUNNING"),
        "refused (409): it is PAUSED",
        applied,
        dry_run="whether it would be done",
    ),
    "migration resume": Verb(
        ("POST", "/v3/migrations/m:resume", None),
        (409, "is RUNNING, not PAUSED"),
        "refused (409): it is RUNNING",
        paused_migration,
        dry_run="whether it would be done",
    ),
    "migration abort": Verb(
        ("POST", "/v3/migrations/m:abort", None),
        (409, "is ABORTED"),
        "refused (409): it is ABORTED",
        applied,
        dry_run="whether it would be done",
    ),
    "migration rehearse": Verb(
        ("POST", "/v3/migrations/m:rehearse", None),
        (200, '"applications"'),
        "done: it is rehearsed again",
        applied,
        dry_run="which promotes would be rehearsed, or why not",
    ),
    "migration undo": Verb(
        ("POST", "/v3/migrations/m:undo", None),
        (409, "is on its way home already"),
        "refused (409): it is on its way home, or there is nothing to undo any more",
        promoted_migration,
        state(S.PENDING_STOPPED, reverse=True),
        dry_run="which groups would be demoted and which topics would go home, or why not",
    ),
    "migration delete": Verb(
        ("DELETE", "/v3/migrations/m", None),
        (404, "no migration 'm'"),
        GONE,
        aborted_migration,
        dry_run="whether it would be done",
    ),
    "gateway forget": Verb(
        ("DELETE", "/v3/gateways/b", None),
        (404, "has no gateway 'b'"),
        GONE,
        nothing,
        dry_run="which processes would be waited for no more, and how long promotes wait otherwise",
    ),
}


def state_of(plane: Plane) -> object:
    """All that a request could have changed, down to the bytes of the state topic."""
    clusters = [
        {name: (list(topic.ranges), dict(topic.configs)) for name, topic in cluster.existing.items()}
        for cluster in (plane.source, plane.target)
    ]
    store = plane.store
    return (
        dict(store.links),
        dict(store.mirrors),
        dict(store.groups),
        dict(store.migrations),
        dict(store.gateways),
        store.applied,
        clusters,
        dict(plane.engine.running),
        plane.promoters.asked,
        (dict(plane.target.scram), dict(plane.target.quotas_there)),
        {name: dict(records) for name, records in store.schemas.items()},
    )


@asynccontextmanager
async def verb_api(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    """REST of a plane, whose fleet has a gateway that leads and one that is lost."""
    book = Book(plane)
    await book.generation("a", "b")
    await book.generation("a")
    fleet = Gateways("a", plane.store, book.registry, dict)
    app = shared_app(lambda: plane.service, Metrics(), fleet=lambda: fleet)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gw") as client:
        yield client
