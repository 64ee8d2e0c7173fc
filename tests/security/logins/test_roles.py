"""Who may do what: the table has every route, is read as the application routes, and holds over HTTP."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.routing import APIRoute
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.access.roles import Caller, Role, RouteTable
from gateway.api.app import create_app
from gateway.api.own import create_own_app
from gateway.console.feed import Feed
from tests.support.control.secured_api import SecuredApi, secured_api

CONFLUENT = "/kafka/v3/clusters/{cluster_id}/links"
PRINCIPALS = ("viewer", "operator", "admin")


class _NoMetrics:
    async def text(self) -> tuple[bytes, str]:
        return b"", "text/plain"


def _unused() -> Any:
    raise AssertionError("nobody is asked")


APP = create_app(_unused, _NoMetrics(), fleet=_unused)
OWN = create_own_app(_unused, _NoMetrics(), dict, feed=Feed(_unused, time.monotonic))
TABLE = RouteTable((*OWN.rows, *APP.rows))


def served(app: Any) -> set[tuple[str, str]]:
    """Method and path of every route of an application, also of those that its document leaves out."""

    def inner(routes: Any) -> Any:
        for route in routes:
            if isinstance(route, APIRoute):
                yield from ((method, route.path) for method in route.methods or ())
            elif hasattr(route, "original_router"):
                yield from inner(route.original_router.routes)
            elif route.path != "/openapi.json":  # of Starlette; its own row is checked below
                raise AssertionError(f"what is {route}?")

    return set(inner(app.routes))


def test_every_route_has_its_row_and_every_row_its_route() -> None:
    """A route that nobody has given a role fails here, and is 404 for everybody until it has one."""
    rows = {(row.method, row.path) for row in TABLE.rows}
    assert rows == served(APP) | served(OWN)
    assert len(rows) == len(TABLE.rows)


def test_a_route_without_a_row_is_nobodys() -> None:
    admin = Caller("a", Role.ADMIN, "token")
    assert TABLE.refusal(admin, "POST", "/v3/secrets") == (404, "Not Found")
    assert TABLE.refusal(admin, "PATCH", "/v3/links") == (405, "PATCH is not served here, GET, POST is")


def test_only_what_says_nothing_is_open() -> None:
    pages = {"/docs", "/docs/{file}", "/console", "/console/{file}", "/console/caller"}
    assert {row.path for row in TABLE.rows if row.role is Role.ANYONE} == {"/health", "/ready", *pages}


def test_whoever_reads_changes_nothing() -> None:
    for row in TABLE.rows:
        assert (row.role <= Role.VIEWER) == (row.method == "GET" or row.reads), row
    assert [row.path for row in TABLE.rows if row.reads] == ["/v3/migrations:check"]


def test_an_operator_gets_no_secret_and_deletes_no_record() -> None:
    admins = {(row.method, row.path) for row in TABLE.rows if row.role is Role.ADMIN}
    assert admins == {
        ("POST", "/v3/links"),
        ("DELETE", "/v3/links/{link}"),
        ("PUT", "/v3/links/{link}/configs:alter"),
        ("PUT", "/v3/links/{link}/configs/{config:path}"),
        ("DELETE", "/v3/links/{link}/configs/{config:path}"),
        ("POST", "/v3/links/{link}/mirrors:truncate-and-restore"),
        ("POST", "/v3/links/{link}/mirrors/{topic}:truncate-and-restore"),
        ("DELETE", "/v3/links/{link}/mirrors/{topic}"),
        ("POST", "/v3/links/{link}/mirrors/{topic}:recreate"),
        ("POST", "/v3/links/{link}/users:apply"),
        ("POST", "/v3/links/{link}/quotas:apply"),
        ("DELETE", "/v3/gateways/{name:path}"),
        ("POST", CONFLUENT),
        ("DELETE", CONFLUENT + "/{link}"),
        ("PUT", CONFLUENT + "/{link}/configs:alter"),
        ("PUT", CONFLUENT + "/{link}/configs/{config_name}"),
        ("DELETE", CONFLUENT + "/{link}/configs/{config_name}"),
        ("POST", CONFLUENT + "/{link}/mirrors:truncate-and-restore"),
    }


_WORDS = (
    "v3",
    "links",
    "l",
    "-",
    "configs",
    "configs:alter",
    "mirrors",
    "groups",
    "gateways",
    "catch-up",
    "job-plan",
    "status",
    "partitions",
    "x:y",
)
_VERBS = (":promote", ":demote", ":truncate-and-restore", ":failover", ":pause", "0:translate")
_PIECES = st.sampled_from(("/", "//", "..", ".", "%2F", "é", *_WORDS, *_VERBS))


@given(st.lists(_PIECES, max_size=9), st.sampled_from(["GET", "POST", "PUT", "DELETE"]))
def test_a_path_means_the_same_to_the_table_and_to_the_application(pieces: list[str], method: str) -> None:
    """Otherwise a request could be judged as one thing and carried out as another."""
    assert_same(method, "/v3/links/l/" + "".join(pieces))
    assert_same(method, "/kafka/v3/clusters/T/links/" + "".join(pieces))


@pytest.mark.parametrize("row", TABLE.rows, ids=lambda row: f"{row.method} {row.path}")
def test_every_row_is_the_route_of_its_path(row: Any) -> None:
    if row.path.startswith(("/v3/links", CONFLUENT)):
        assert_same(row.method, example(row.path))


def assert_same(method: str, path: str) -> None:
    asked = TABLE.find(method, path)
    scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": [], "query_string": b""}
    routed = route_of(APP.routes, scope)
    assert (asked.route.path if asked else None) == routed


def route_of(routes: Any, scope: dict[str, Any]) -> str | None:
    """As FastAPI picks: the first route that fits path and method."""
    from starlette.routing import Match

    for route in routes:
        if hasattr(route, "original_router"):
            found = route_of(route.original_router.routes, scope)
            if found is not None:
                return found
        elif route.path != "/openapi.json" and route.matches(scope)[0] is Match.FULL:
            return str(route.path)
    return None


def example(path: str) -> str:
    for name in ("link", "topic", "group:path", "job", "name:path", "file", "partition", "cluster_id", "config_name"):
        path = path.replace(f"{{{name}}}", "0")
    return path


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[SecuredApi]:
    principals = []
    for role in PRINCIPALS:
        file = tmp_path / f"{role}.token"
        file.write_text(f"a-token-of-the-{role}\n", encoding="ascii")
        file.chmod(0o640)  # as Kubernetes mounts a secret
        principals.append({"name": role, "role": role, "token_file": file})
    async with secured_api(tmp_path, principals=principals) as made:
        yield made


async def test_every_row_holds_over_http(api: SecuredApi) -> None:
    """Each role on each route: 403 exactly where the table says so, and nothing was done by it."""
    for row, name in itertools.product(TABLE.rows, PRINCIPALS):
        if row.role is Role.ANYONE:
            continue
        request = api.client(f"a-token-of-the-{name}")
        async with request as client, client.stream(row.method, example(row.path)) as answer:
            if answer.headers.get("content-type") != "text/event-stream; charset=utf-8":  # which has no end
                await answer.aread()
        allowed = Role.named(name) >= row.role
        assert (answer.status_code != 403) == allowed, (row, name, answer.status_code)
        assert answer.status_code != 401
        if not allowed:
            assert answer.json()["message"].endswith(f"takes the role {row.role}; '{name}' is {name}")


async def test_no_way_of_writing_a_path_gets_around_the_table(api: SecuredApi) -> None:
    """Escapes and dots are what they are for the application, not something else."""
    await api.plane.with_link("l")
    async with api.client("a-token-of-the-operator") as client:
        for path in (
            "/v3/links/x/groups/../../../links/l",
            "/v3/links/x/groups/%2e%2e/%2e%2e/%2e%2e/links/l",
            "/v3/links//l",
            "/v3/links/l/",
            "/v3/./links/l",
            "//v3/links/l",
            "/v3/links/l?x=/v3/status",
            "/v3%2Flinks%2Fl",
        ):
            request = client.build_request("DELETE", "/")
            request.url = request.url.copy_with(raw_path=path.encode())
            answer = await client.send(request)
            assert answer.status_code in (400, 403, 404, 405), (path, answer.status_code)
    assert "l" in api.plane.store.links


async def test_a_name_with_a_slash_is_one_name(api: SecuredApi) -> None:
    async with api.client() as client:
        answer = await client.get(f"/v3/links/l/groups/{quote('a/b:promote', safe='')}")
        assert answer.status_code == 404
        assert "link 'l'" in answer.json()["message"]
