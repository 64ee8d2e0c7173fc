"""Every request that changes something can be asked what it would do, and changes nothing then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest

from gateway.errors import Conflict, NotFound
from gateway.kafka.groups import GroupView, MemberView
from gateway.kafka.rules.quota import EntityType, QuotaEntityPart, QuotaKey
from gateway.kafka.rules.scram import ScramCredential, ScramKey, ScramMechanism
from gateway.migration.rules.file import parsed
from gateway.state.records import GroupRecord, MirrorDirection, MirrorError, MirrorState
from gateway.telemetry.metrics import Metrics
from tests.support.control.control_plane import Plane
from tests.support.control.mirror_records import changed
from tests.support.control.shared_app import every_route, shared_app
from tests.support.control.verbs import VERBS, state_of
from tests.support.fakes.fake_engine import status
from tests.support.registries.registry_pair import RegistryPair

CONFLUENT = "/kafka/v3/clusters/{cluster_id}/links"
WITHOUT: Mapping[str, str] = {
    "PUT /v3/links/{link}/catch-up/{job}": "a job's report of what it has done; `lockgate job plan` is before one",
    f"PUT {CONFLUENT}/{{link}}/configs/{{config_name}}": "Confluent's has none; configs:alter has",
    f"DELETE {CONFLUENT}/{{link}}/configs/{{config_name}}": "Confluent's has none; configs:alter has",
    f"POST {CONFLUENT}/{{link}}/mirrors": "Confluent's has none; /v3 has",
}


class Fleet:
    """One gateway that leads, one that is lost."""

    def __init__(self) -> None:
        self.forgot: list[str] = []

    def list(self) -> Sequence[Any]:
        return []

    def describe(self, name: str) -> Any:
        raise NotFound(name)

    def forgotten(self, name: str) -> Sequence[str]:
        if name == "one":
            raise Conflict("gateway 'one' is there")
        if name != "two":
            raise NotFound(f"the fleet has no gateway '{name}'")
        return ["two", "two#2"]

    async def forget(self, name: str) -> None:
        self.forgot.append(name)


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


@pytest.fixture
async def api(plane: Plane, fleet: Fleet):
    app = shared_app(lambda: plane.service, Metrics(), fleet=lambda: fleet)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url="http://gw"
    ) as client:
        yield client


@pytest.fixture
async def scene(plane: Plane) -> Plane:
    """Mirrors in each state that a verb begins in, a group on the source, and one that is mirrored."""
    await RegistryPair(plane).linked()
    for topic in ("active", "paused", "stopped", "failed", "back"):
        await plane.with_mirror(topic)
        plane.engine.numbers["l", topic] = [status(partition) for partition in range(3)]
    await plane.service.mirrors.pause("l", "paused")
    records = plane.store.mirrors
    for name in ("stopped",):
        for cluster in (plane.source, plane.target):
            cluster.existing[name].ranges = [(0, 100)] * 3
        done = changed(records["l", name], state=MirrorState.STOPPED, stopped_at=(100,) * 3, readable=True)
        await plane.by_hand(changed(done, stopped_copy_at=(100,) * 3, restore_configs={}))
    await plane.by_hand(
        replace(records["l", "failed"], state=MirrorState.FAILED, error=MirrorError.OFFSET_GAP),
        replace(records["l", "active"], readable=True),
        changed(records["l", "back"], direction=MirrorDirection.REVERSE, readable=True, stopped_at=(100,) * 3),
        GroupRecord(link="l", group="mirrored"),
    )
    member = MemberView(member_id="m", client_id="app", host="h", subscribed=frozenset({"active"}))
    for group in ("mirrored", "new"):
        plane.source.groups[group] = GroupView(
            group=group, state="Stable", type="classic", protocol_type="consumer", members=(member,)
        )
    alice = ScramKey("alice", ScramMechanism.SHA_256)
    plane.source.scram = {alice: ScramCredential(alice, 4096, b"s", b"p")}
    plane.source.quotas_there = {QuotaKey((QuotaEntityPart(EntityType.USER, "alice"),), "producer_byte_rate"): 1.0}
    for name in ("running", "paused"):
        await plane.service.migrations.apply(parsed(migration(name)), "ann")
    await plane.service.migrations.apply(parsed(HOME), "ann")
    for name in ("paused", "home"):
        await plane.service.migrations.pause(name, "ann")
    await plane.service._sync.run_due()  # what goes on by itself has nothing to change any more
    return plane


def migration(name: str) -> dict[str, Any]:
    """Of a topic that is not there, and that no other one means."""
    return {"migration": name, "link": "l", "applications": [{"name": "a", "topics": [f"nosuch-{name}"]}]}


HOME = {"migration": "home", "link": "l", "applications": [{"name": "a", "topics": ["back"]}]}
FURTHER: Sequence[tuple[str, str, Any]] = [
    ("DELETE", "/v3/links/l?force=true", None),
    ("PUT", "/v3/links/l/configs/ack", {"value": "both"}),
    ("DELETE", "/v3/links/l/configs/ack", None),
    ("DELETE", "/v3/links/l/mirrors/active?delete_topic=true&force=true", None),
    ("POST", "/v3/links/l/mirrors/active:reverse-and-start-mirror", None),
    ("POST", "/v3/links/l/mirrors/stopped:reverse-and-pause-mirror", None),
    ("POST", "/v3/links/l/mirrors:promote", {"mirror_topic_names": ["active"]}),
    ("POST", "/v3/links/l/mirrors:reverse-and-start-mirror", {"mirror_topic_names": ["stopped"]}),
    ("POST", "/v3/links/l/mirrors:reverse-and-pause-mirror", {"mirror_topic_names": ["active"]}),
    ("POST", "/v3/links/l/mirrors:failover", {"mirror_topic_names": ["active"]}),
    ("POST", "/v3/links/l/mirrors:truncate-and-restore", {"mirror_topic_names": ["stopped"]}),
    ("POST", "/v3/links/l/groups/mirrored:remove-members", {"force": True}),
    ("PUT", "/v3/migrations/running", migration("running") | {"applications": [{"name": "b", "groups": ["g"]}]}),
]
"""Beside the verbs of `control/verbs.py`: other routes, and what the same ones meet in another state."""


@pytest.mark.parametrize(("method", "path", "body"), FURTHER, ids=[f"{method} {path}" for method, path, _ in FURTHER])
async def test_nothing_is_changed(api, scene, fleet, method, path, body):
    before = state_of(scene)
    separator = "&" if "?" in path else "?"
    answer = await api.request(method, f"{path}{separator}validate_only=true", json=body)
    assert answer.status_code < 300, answer.text
    assert state_of(scene) == before
    assert fleet.forgot == []


def test_every_route_that_changes_something_is_tried():
    """Under Confluent's paths `confluent/test_alter.py` and its neighbours do."""
    table = every_route()
    asked = [verb.asked[:2] for verb in VERBS.values()] + [(method, path) for method, path, _ in FURTHER]
    found = [table.find(method, path.partition("?")[0]) for method, path in asked]
    tried = {one.route for one in found if one is not None}
    changing = {row for row in table.rows if row.method != "GET" and not row.reads and row.path.startswith("/v3")}
    assert {f"{row.method} {row.path}" for row in changing - tried} == {"PUT /v3/links/{link}/catch-up/{job}"}


async def test_every_request_that_changes_something_can_be_tried(api):
    paths = (await api.get("/openapi.json")).json()["paths"]
    without = set()
    reads = {(row.method.lower(), row.path) for row in every_route().rows if row.reads}
    for path, methods in paths.items():
        for method, said in methods.items():
            query = {one["name"] for one in said.get("parameters", ())}
            if method != "get" and (method, path) not in reads and "validate_only" not in query:
                without.add(f"{method.upper()} {path}")
    assert without == set(WITHOUT)


async def test_what_a_reverse_would_meet(api, scene):
    path = "/v3/links/l/mirrors:reverse-and-start-mirror?validate_only=true"
    (plan,) = (await api.post(path, json={"mirror_topic_names": ["active"]})).json()["data"]
    assert (plan["kind"], plan["promoted_first"], plan["blockers"]) == ("LockgateReversePlan", True, [])
    (plan,) = (await api.post(path, json={"mirror_topic_names": ["stopped"]})).json()["data"]
    assert (plan["promoted_first"], plan["blockers"]) == (False, [])
    scene.source.existing["stopped"].ranges = [(0, 104), (0, 100), (0, 100)]
    one = (await api.post("/v3/links/l/mirrors/stopped:reverse-and-pause-mirror?validate_only=true")).json()
    assert "4 records are on the source and not on the target" in one["blockers"][0]
    both = (await api.post(path, json={"mirror_topic_names": ["active", "paused"]})).json()["data"]
    assert [bool(each["blockers"]) for each in both] == [False, True]
    none = await api.post(path, json={"mirror_topic_names": []})
    assert none.status_code == 400
    assert (await api.post(path, json={"mirror_topic_names": ["nope"]})).status_code == 404


async def test_what_a_pause_would_be_refused_for(api, scene):
    refused = await api.post("/v3/links/l/mirrors/paused:pause?validate_only=true")
    assert (refused.status_code, "is already PAUSED" in refused.text) == (409, True)
    assert (await api.post("/v3/links/l/mirrors/nope:resume?validate_only=true")).status_code == 404


async def test_what_a_group_would_meet(api, scene):
    scene.promoters.refusal = Conflict("the group still has 1 member(s) on the source")
    plan = (await api.post("/v3/links/l/groups/mirrored:promote?validate_only=true")).json()
    assert (plan["kind"], plan["operation"], plan["state"]) == ("LockgateGroupPlan", "promote", "ACTIVE")
    assert plan["blockers"] == ["the group still has 1 member(s) on the source"]
    scene.promoters.refusal, scene.promoters.waits = None, "the mirror of active-0 has come to 3"
    await scene.service.link_updates.pause("l")
    plan = (await api.post("/v3/links/l/groups/mirrored:demote?validate_only=true")).json()
    assert plan["blockers"] == []
    assert plan["waits_for"].endswith("its link is paused: lockgate link resume l")
    twice = await api.post("/v3/links/l/groups?validate_only=true", json={"group": "mirrored"})
    assert (twice.status_code, "is already a mirror group" in twice.text) == (409, True)
    assert (await api.post("/v3/links/l/groups/nope:demote?validate_only=true")).status_code == 404


async def test_what_forgetting_a_gateway_would_mean(api, scene):
    plan = (await api.delete("/v3/gateways/two?validate_only=true")).json()
    assert (plan["processes"], plan["refused"], plan["lease_left_s"]) == (["two", "two#2"], "", None)
    assert (await api.delete("/v3/gateways/one?validate_only=true")).json()["refused"] == "gateway 'one' is there"
    assert (await api.delete("/v3/gateways/three?validate_only=true")).status_code == 404
