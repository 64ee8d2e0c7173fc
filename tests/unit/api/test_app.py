"""REST: shapes, statuses, and one error body for everything."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.api.access.roles import Role
from gateway.api.migrations import migrations
from gateway.groups.gate.rules.gates import Identity, Waiter
from gateway.kafka.commits import Committed
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.groups import GroupView, MemberView
from gateway.kafka.logs.log_excerpt import RecordExcerpt, Shortened
from gateway.migration.rules.file_text import of_yaml
from gateway.state.errors import ProducerFenced, StoreError
from gateway.state.records import MirrorState
from gateway.telemetry.metrics import Metrics
from tests.support.control.control_plane import SOURCE, Plane
from tests.support.control.shared_app import every_route, shared_app
from tests.support.fakes.fake_engine import status
from tests.support.waiting import wait_until_async

LINK = {"link_name": "l", "configs": [{"name": "bootstrap.servers", "value": SOURCE}, {"name": "ack", "value": "both"}]}


@pytest.fixture
async def api(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    metrics = Metrics()
    metrics.control = plane.service.numbers
    app = shared_app(lambda: plane.service, metrics, lambda: {"bootstrap": "gw:9292", "1": "gw:9293"})
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://gw") as client:
        yield client


def refused(answer: httpx.Response, code: int, words: str) -> None:
    assert answer.status_code == code
    assert answer.json().keys() == {"error_code", "message"}
    assert answer.json()["error_code"] == code
    assert words in answer.json()["message"]
    assert "\n" not in answer.json()["message"]


async def test_a_links_life(api):
    created = await api.post("/v3/links", json=LINK)
    assert created.status_code == 201
    link = created.json()
    assert link["kind"] == "KafkaLinkData"
    assert (link["link_name"], link["source_cluster_id"], link["destination_cluster_id"]) == ("l", "S", "T")
    assert (link["link_state"], link["configs"]["ack"]) == ("ACTIVE", "both")

    assert (await api.get("/v3/links")).json() == {"kind": "KafkaLinkDataList", "data": [link]}
    assert (await api.get("/v3/links/l")).json() == link
    deleted = await api.delete("/v3/links/l")
    assert (deleted.status_code, deleted.content) == (204, b"")
    refused(await api.get("/v3/links/l"), 404, "link 'l' does not exist")


async def test_a_mirrors_life(api, plane):
    await api.post("/v3/links", json=LINK)
    plane.source.add("orders", 1)
    created = await api.post("/v3/links/l/mirrors", json={"source_topic_name": "orders"})
    assert created.status_code == 201
    plane.engine.numbers["l", "orders"] = [status(0, lag=2, bypassed_last_minute=3)]

    mirror = (await api.get("/v3/links/l/mirrors/orders")).json()
    assert mirror["kind"] == "KafkaMirrorData"
    assert (mirror["mirror_status"], mirror["mirror_topic_error"], mirror["num_partitions"]) == (
        "ACTIVE",
        "NO_ERROR",
        1,
    )
    assert (mirror["mode"], mirror["readable"], mirror["state_time_ms"]) == ("preserve", False, plane.now_ms)
    assert mirror["mirror_lags"][0]["lag"] == 2
    assert mirror["clients_not_migrated"] == {"bypassed_last_minute": 3, "readers": [], "unknown": ""}

    assert (await api.post("/v3/links/l/mirrors/orders:pause")).json()["mirror_status"] == "PAUSED"
    refused(await api.post("/v3/links/l/mirrors/orders:promote"), 409, "resume it first")
    assert (await api.post("/v3/links/l/mirrors/orders:resume")).json()["mirror_status"] == "ACTIVE"
    begun = await api.post("/v3/links/l/mirrors:promote", json={"mirror_topic_names": ["orders"]})
    assert begun.status_code == 202

    await wait_until_async(lambda: plane.state() is MirrorState.STOPPED)
    listed = (await api.get("/v3/links/l/mirrors", params={"mirror_status": "STOPPED"})).json()["data"]
    assert [each["mirror_topic_name"] for each in listed] == ["orders"]
    assert (await api.get("/v3/links/l/mirrors", params={"mirror_status": "ACTIVE"})).json()["data"] == []


async def test_promote_of_one_topic_with_and_without_a_body(api, plane):
    await plane.with_mirror("a")
    await plane.with_mirror("b")

    assert (await api.post("/v3/links/l/mirrors/a:promote")).status_code == 202
    assert (await api.post("/v3/links/l/mirrors/b:promote", json={"force": True})).status_code == 202
    assert plane.promoters.asked == [("l", ("a",), False), ("l", ("b",), True)]


async def test_groups_with_names_of_all_kinds(api, plane):
    await plane.with_link()
    name = "team/a:promote me?"
    member = MemberView(member_id="m", client_id="app", host="/10.0.0.1", subscribed=frozenset({"t"}))
    plane.source.groups[name] = GroupView(
        group=name, state="Stable", type="classic", protocol_type="consumer", members=(member,)
    )
    plane.source.offsets[name] = {("t", 1): Committed(7, -1, ""), ("t", 0): Committed(5, -1, "")}
    path = "/v3/links/l/groups/team%2Fa%3Apromote%20me%3F"

    assert (await api.post("/v3/links/l/groups", json={"group": name})).status_code == 201
    plane.gates.wait(Waiter(name, Identity("10.0.0.2", "new"), since=0.0), lambda: None)
    group = (await api.get(path)).json()
    assert (group["group"], group["state"], group["source_state"]) == (name, "ACTIVE", "Stable")
    assert group["members"] == [
        {
            "client_id": "app",
            "host": "/10.0.0.1",
            "topics": ["t"],
            "member_id": "m",
            "instance_id": None,
            "waits": False,
            "session_timeout_ms": None,
        }
    ]
    assert [(w["client_id"], w["host"]) for w in group["waiting"]] == [("new", "10.0.0.2")]
    assert [(o["partition"], o["source_offset"], o["target_offset"]) for o in group["offsets"]] == [
        (0, 5, None),
        (1, 7, None),
    ]
    promoted = (await api.post(path + ":promote")).json()
    assert (promoted["state"], promoted["members_after_promote"]) == ("PROMOTED", True)
    assert (await api.post(path + ":demote", json={"force": True})).json()["state"] == "ACTIVE"
    assert [g["group"] for g in (await api.get("/v3/links/l/groups")).json()["data"]] == [name]


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "words"),
    [
        ("POST", "/v3/links", {"link_name": "a b", "configs": LINK["configs"]}, 400, "link name"),
        ("POST", "/v3/links", {"link_name": "x"}, 400, "configs: is required"),
        ("POST", "/v3/links", {"link_name": "x", "configs": [], "extra": 1}, 400, "extra: "),
        ("POST", "/v3/links", {"link_name": "x", "configs": [{"name": "a", "value": "1"}] * 2}, 400, "occurs twice"),
        ("POST", "/v3/links", {"link_name": "l", "configs": LINK["configs"]}, 409, "exists already"),
        ("GET", "/v3/links/l/mirrors?mirror_status=GREEN", None, 400, "mirror_status"),
        ("GET", "/v3/links/l/mirrors/x", None, 404, "no mirror topic 'x'"),
        ("POST", "/v3/links/l/mirrors", {"source_topic_name": "x"}, 404, "topic 'x' does not exist"),
        ("POST", "/v3/links/l/mirrors/x:pause", None, 404, "no mirror topic 'x'"),
        ("POST", "/v3/links/l/mirrors:promote", {"mirror_topic_names": []}, 400, "no topic"),
        ("POST", "/v3/links/l/groups/x:promote", None, 404, "no mirror group 'x'"),
        ("GET", "/v3/nothing", None, 404, "Not Found"),
        ("PUT", "/v3/links", None, 405, "Method Not Allowed"),
    ],
)
async def test_refusals(api, method, path, body, code, words):
    await api.post("/v3/links", json=LINK)

    refused(await api.request(method, path, json=body), code, words)


async def test_a_body_that_is_no_json(api):
    answer = await api.post("/v3/links", content=b"{", headers={"content-type": "application/json"})

    refused(answer, 400, "JSON")


async def test_unreachable_source_and_target(api, plane):
    plane.source.down = True
    refused(await api.post("/v3/links", json=LINK), 502, "source:9092 is not reachable")
    plane.source.down = False
    plane.log.failures = [StoreError("no leader")]
    refused(await api.post("/v3/links", json=LINK), 503, "no leader")
    plane.log.failures = [ProducerFenced("replaced")]
    refused(await api.post("/v3/links", json=LINK), 503, "replaced")


async def test_a_bug_is_an_answer_too(api, plane, monkeypatch):
    monkeypatch.setattr(plane.service.links, "describe", lambda name: 1 / 0)

    refused(await api.get("/v3/links/l"), 500, "internal error: ZeroDivisionError")


async def test_status_health_and_metrics(api, plane):
    await plane.with_mirror()
    plane.engine.numbers["l", "orders"] = [status(0, lag=42)]

    found = (await api.get("/v3/status")).json()
    assert found["listeners"] == {"bootstrap": "gw:9292", "1": "gw:9293"}
    assert (found["target_cluster_id"], found["links"], found["mirrors"]) == ("T", {"l": "ACTIVE"}, {"ACTIVE": 1})
    assert found["gateway_id"] == plane.store.instance
    assert (await api.get("/health")).json() == {"status": "ok", "checks": {}}
    answer = await api.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'lockgate_mirror_lag_records{link="l",partition="0",topic="orders"} 42.0' in answer.text


async def test_a_catch_up_job(api, plane):
    await plane.with_mirror()
    plane.source.config = plane.target.config = ClusterConfig.from_client_properties(
        {
            "bootstrap.servers": SOURCE,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "u",
            "sasl.password": "secret",
        }
    )

    plan = (await api.get("/v3/links/l/catch-up", params={"topic": "orders"})).json()
    assert plan["target"]["client"]["bootstrap.servers"] == SOURCE
    assert "secret" not in str(plan)
    assert [(m["mirror_topic_name"], len(m["starts"])) for m in plan["mirrors"]] == [("orders", 3)]
    refused(await api.get("/v3/links/l/catch-up", params={"topic": "nope"}), 404, "no mirror topic 'nope'")
    read = (await api.get("/v3/links/l/job-plan")).json()
    assert [(one["mirror_topic_name"], one["mode"]) for one in read["mirrors"]] == [("orders", "preserve")]
    assert (read["group_prefix"], read["target"]) == ("", plan["target"])
    refused(await api.get("/v3/links/l/job-plan", params={"topic": "nope"}), 404, "no mirror topic 'nope'")

    topic = {"mirror_topic_name": "orders", "records_done": 3, "records_total": 4, "bytes_per_s": 1.5, "eta_s": 2}
    body = {"by": "spark", "state": "running", "topics": [topic]}
    assert (await api.put("/v3/links/l/catch-up/job-1", json=body)).status_code == 204
    shown = (await api.get("/v3/links/l/mirrors/orders")).json()
    assert (shown["mirror_status"], shown["catch_up"]["records_done"]) == ("CATCHING_UP", 3)
    assert {lag["phase"] for lag in shown["mirror_lags"]} == {"catching_up"}
    refused(await api.put("/v3/links/l/catch-up/job-2", json=body), 409, "caught up by spark job job-1")
    refused(await api.put("/v3/links/l/catch-up/job-1", json=body | {"state": "lost"}), 400, "state")

    assert (await api.put("/v3/links/l/catch-up/job-1", json=body | {"state": "done"})).status_code == 204
    shown = (await api.get("/v3/links/l/mirrors/orders")).json()
    assert (shown["mirror_status"], shown["catch_up"]) == ("ACTIVE", None)


async def test_candidates(api, plane):
    await plane.with_link()
    plane.source.add("orders")
    plane.source.add("__x")

    body = (await api.get("/v3/links/l/candidates")).json()
    assert (body["auto_create"]["task_name"], body["auto_create"]["state"]) == ("AutoCreateMirror", "NOT_CONFIGURED")
    assert [(one["source_topic_name"], one["mirror_topic_name"], one["reason"]) for one in body["data"]] == [
        ("__x", "__x", "INTERNAL"),
        ("orders", "orders", "AUTO_CREATE_OFF"),
    ]
    off = (await api.get("/v3/links/l/candidates", params={"reason": "AUTO_CREATE_OFF"})).json()
    assert [one["source_topic_name"] for one in off["data"]] == ["orders"]
    refused(await api.get("/v3/links/nope/candidates"), 404, "link 'nope' does not exist")
    refused(await api.get("/v3/links/l/candidates", params={"reason": "NO"}), 400, "reason")
    plane.source.down = True
    refused(await api.get("/v3/links/l/candidates"), 502, "connection refused")


async def test_a_migration_file_is_checked_as_text(api):
    said = (await api.post("/v3/migrations:check", json={"text": "migration: m\nlink: l\ncolour: red\n"})).json()
    assert said["problems"] == [
        {"line": None, "message": "applications: is required"},
        {"line": 3, "message": "colour: unknown key"},
    ]
    assert (said["file"], said["more_problems"]) == (None, 0)
    text = "migration: m\nlink: l  # west\napplications: [{name: a, topics: [t]}]\n"
    said = (await api.post("/v3/migrations:check", json={"text": text})).json()
    assert said["file"] == {"migration": "m", "link": "l", "applications": [{"name": "a", "topics": ["t"]}]}
    assert said["problems"] == []
    assert (await api.get("/v3/migrations")).json()["data"] == []
    refused(await api.post("/v3/migrations:check", json={"file": text}), 400, "text: is required")


async def test_migration_files_are_checked_one_by_one(api, monkeypatch):
    """Who waits for longer than it may is told so; the next one finds it free again."""
    first, begun = threading.Event(), threading.Event()

    def slow(text):
        begun.set()
        first.wait(20)
        return of_yaml(text)

    monkeypatch.setattr(migrations, "of_yaml", slow)
    monkeypatch.setattr(migrations, "CHECK_S", 0.05)
    held = asyncio.create_task(api.post("/v3/migrations:check", json={"text": ""}))
    await wait_until_async(begun.is_set, 20)
    try:
        refused(await api.post("/v3/migrations:check", json={"text": ""}), 503, "try again")
    finally:
        first.set()
    assert (await held).status_code == 200
    assert (await api.post("/v3/migrations:check", json={"text": ""})).status_code == 200


async def test_every_route_is_described(api):
    """Which ones there are stands in tests/golden/openapi.json."""
    paths = (await api.get("/openapi.json")).json()["paths"]
    for routes in paths.values():
        for route in routes.values():
            assert route["summary"]
            assert "409" in route["responses"]


async def test_a_links_configs_are_changed_while_it_runs(api):
    await api.post("/v3/links", json=LINK)
    body = {"data": [{"name": "ack", "value": "both"}, {"name": "topic.config.sync.ms", "operation": "DELETE"}]}
    changed = await api.put("/v3/links/l/configs:alter", json=body)
    assert (changed.status_code, changed.json()["configs"]["ack"]) == (200, "both")
    one = (await api.get("/v3/links/l/configs/ack")).json()
    assert (one["kind"], one["value"], one["read_only"]) == ("KafkaLinkConfigData", "both", False)
    assert (await api.put("/v3/links/l/configs/ack", json={"value": "source"})).status_code == 204
    assert (await api.delete("/v3/links/l/configs/ack")).status_code == 204
    assert (await api.get("/v3/links/l/configs/ack")).json()["source"] == "DEFAULT_CONFIG"
    refused(await api.get("/v3/links/l/configs/x.y"), 404, "has no config 'x.y'")
    refused(await api.put("/v3/links/l/configs/link.prefix", json={"value": "w."}), 400, "create another link")
    listed = {one["name"]: one for one in (await api.get("/v3/links/l/configs")).json()["data"]}
    assert listed["link.prefix"]["read_only"]


async def test_a_link_is_paused_and_mirrors_are_paused_together(api, plane):
    plane.source.add("orders")
    await api.post("/v3/links", json={**LINK, "configs": LINK["configs"][:1]})
    await api.post("/v3/links/l/mirrors", json={"source_topic_name": "orders"})
    assert (await api.post("/v3/links/l:pause")).json()["link_state"] == "PAUSED"
    listed = (await api.get("/v3/links/l/mirrors", params={"mirror_status": "PAUSED"})).json()["data"]
    assert [(one["mirror_topic_name"], one["paused_by_link"]) for one in listed] == [("orders", True)]
    refused(await api.post("/v3/links/l/mirrors/orders:promote"), 409, "resume the link first")
    assert (await api.post("/v3/links/l:resume")).json()["link_state"] == "ACTIVE"
    body = {"mirror_topic_names": ["orders"]}
    assert (await api.post("/v3/links/l/mirrors:pause", json=body)).json()["data"][0]["mirror_status"] == "PAUSED"
    assert (await api.post("/v3/links/l/mirrors:resume", json=body)).json()["data"][0]["mirror_status"] == "ACTIVE"
    plan = (await api.delete("/v3/links/l", params={"validate_only": True})).json()
    assert (plan["kind"], plan["remains"][0]["name"]) == ("KafkaLinkDeletePlan", "orders")
    tasks = (await api.get("/v3/links/l/tasks")).json()
    assert tasks["data"][0]["task_name"] == "CheckAvailability"


async def test_messages_of_both_clusters(api, plane):
    await plane.with_mirror(partitions=1)
    cut = "aé".encode()[:2]  # a character is cut through
    for cluster in (plane.source, plane.target):
        cluster.existing["orders"].ranges[:] = [(0, 2)]
        cluster.records["orders", 0] = [
            RecordExcerpt(0, 5, None, Shortened(3, cut), 1, 7),
            RecordExcerpt(1, 6, Shortened(1, b"k"), Shortened(2, b"\x00\xff"), 0, 8),
        ]
    path = "/v3/links/l/mirrors/orders/partitions/0/messages"
    body = (await api.get(path, params={"offset": 0})).json()
    assert body["source_range"] == {"log_start": 0, "log_end": 2}
    first, second = body["data"]
    assert first["is_equal"]
    assert first["source"] == first["target"]
    assert first["source"]["value"] == {"size": 3, "encoding": "utf-8", "text": "a"}
    assert (first["source"]["key"], first["source"]["headers_count"], first["source"]["note"]) == (None, 1, None)
    assert second["target"]["value"] == {"size": 2, "encoding": "hex", "text": "00ff"}
    refused(await api.get(path, params={"count": 101}), 400, "count")
    refused(await api.get(path.replace("/0/", "/9/")), 400, "there is no 9")


def test_messages_are_shown_to_admins_alone():
    found = every_route().find("GET", "/v3/links/l/mirrors/orders/partitions/0/messages")
    assert found is not None
    assert found.route.role is Role.ADMIN
