"""The audit trail: one JSON line for every change, by whom, from where, before and after; and no secret in it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from gateway.operations.secrets.link_secrets import LinkSecrets
from gateway.operations.secrets.sealing import SealingKeys
from gateway.telemetry.logs import AUDIT, configure_audit
from tests.support.control.control_plane import SOURCE
from tests.support.control.secured_api import SecuredApi, secured_api
from tests.support.waiting import wait_until_async

SECRETS = {
    "sasl.password": "hunter-2-the-password",
    "sasl.jaas.config": 'org.apache.kafka.PlainLoginModule required username="u" password="hunter-3";',
    "ssl.key.password": "hunter-4-the-key",
    "sasl.pasword": "hunter-5-misspelt",
}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[SecuredApi]:
    operator = tmp_path / "operator.token"
    operator.write_text("a-token-of-the-operator", encoding="ascii")
    operator.chmod(0o600)
    principals = [{"name": "olga", "role": "operator", "token_file": operator}]
    async with secured_api(tmp_path, principals=principals) as made:
        yield made


def lines(api: SecuredApi) -> list[dict[str, Any]]:
    return [json.loads(line) for line in api.audit]


def entries(**configs: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in configs.items()]


async def test_a_change_is_told_whole(api: SecuredApi) -> None:
    api.plane.source.add("orders", 2, 100)
    async with api.client() as client:
        body = {"link_name": "l", "configs": entries(**{"bootstrap.servers": SOURCE, "ack": "both"})}
        assert (await client.post("/v3/links", json=body)).status_code == 201
    async with api.client("a-token-of-the-operator") as client:
        assert (await client.post("/v3/links/l/mirrors", json={"source_topic_name": "orders"})).status_code == 201
        assert (await client.post("/v3/links/l/mirrors/orders:pause")).status_code == 200
        assert (await client.get("/v3/links/l/mirrors")).status_code == 200
    created, mirrored, paused = lines(api)
    assert created["principal"] == "local"
    assert (created["role"], created["proof"], created["status"], created["result"]) == ("admin", "token", 201, "done")
    assert created["from"].startswith("127.0.0.1:")
    assert (created["gateway"], created["through"]) == ("gw", "gw")
    assert (created["method"], created["path"]) == ("POST", "/v3/links")
    assert created["before"] == {}
    assert created["after"]["link l"]["client"] == {"bootstrap.servers": SOURCE}
    assert created["after"]["link l"]["configs"] == {"ack": "both"}
    assert created["time"] == "1970-01-01T00:16:40.000Z"
    assert (mirrored["principal"], mirrored["before"]) == ("olga", {})
    assert mirrored["after"]["mirror topic l/orders"]["state"] == "ACTIVE"
    assert paused["before"]["mirror topic l/orders"]["state"] == "ACTIVE"
    assert paused["after"]["mirror topic l/orders"]["state"] == "PAUSED"


async def test_what_only_reads_leaves_no_line(api: SecuredApi) -> None:
    async with api.client("a-token-of-the-operator") as client:
        assert (await client.post("/v3/migrations:check", json={"text": "migration: m"})).status_code == 200
    assert lines(api) == []
    async with api.client("") as client:
        assert (await client.post("/v3/migrations:check", json={"text": "migration: m"})).status_code == 401
    assert [line["status"] for line in lines(api)] == [401]


async def test_what_did_not_happen_is_told_too(api: SecuredApi) -> None:
    await api.plane.with_link("l")
    async with api.client("a-token-of-the-operator") as client:
        await client.delete("/v3/links/l")
        await client.post("/v3/links/l/mirrors", json={"source_topic_name": "none"})
    async with api.client("") as client:
        await client.delete("/v3/links/l")
    forbidden, failed, stranger = lines(api)
    assert (forbidden["principal"], forbidden["status"], forbidden["result"]) == ("olga", 403, "refused")
    assert "takes the role admin" in forbidden["reason"]
    assert (failed["status"], failed["result"]) == (404, "refused")
    assert "none" in failed["reason"]
    assert (stranger["principal"], stranger["role"], stranger["status"]) == ("", "anyone", 401)
    assert stranger["from"].startswith("127.0.0.1:")
    assert "l" in api.plane.store.links


async def test_no_secret_is_written_down(api: SecuredApi) -> None:
    """Also of requests that are refused, and of names that are misspelt."""
    api.plane.parts.sources.secrets = LinkSecrets(keys=SealingKeys([bytes(32)]))
    async with api.client() as client:
        for name, value in SECRETS.items():
            body = {"link_name": f"l-{len(name)}", "configs": entries(**{"bootstrap.servers": SOURCE, name: value})}
            await client.post("/v3/links", json=body)
        body = {
            "link_name": "good",
            "configs": entries(
                **{
                    "bootstrap.servers": SOURCE,
                    "security.protocol": "SASL_SSL",
                    "sasl.mechanism": "PLAIN",
                    "sasl.username": "lockgate",
                    "sasl.password": SECRETS["sasl.password"],
                }
            ),
        }
        assert (await client.post("/v3/links", json=body)).status_code == 201
        await client.post("/v3/links", json={"link_name": "x", "password": SECRETS["sasl.password"], "configs": []})
        await client.post(
            "/v3/links", content=b'{"password": "hunter-2-the-password', headers={"Content-Type": "application/json"}
        )
    text = "\n".join(api.audit)
    assert len(api.audit) == len(SECRETS) + 3
    assert "hunter" not in text
    assert api.token not in text
    assert '"sasl.username", "value": "lockgate"' in text
    assert "********" in text


async def test_a_line_stays_a_line(api: SecuredApi) -> None:
    """Names that clients choose break no line and send no escape to a terminal."""
    async with api.client() as client:
        await client.request("DELETE", "/v3/gateways/a%0A%1B%5B31mred%0D%0A{}")
        await client.post("/v3/links", json={"link_name": "a\n\x1b[2J\u202e", "configs": []})
    assert len(api.audit) == 2
    for line in api.audit:
        assert line.isascii()
        assert line.isprintable()
        assert isinstance(json.loads(line), dict)


async def test_a_body_that_is_all_brackets_is_told_too(api: SecuredApi) -> None:
    async with api.client() as client:
        for depth in (50, 400, 900, 5_000):
            body = b'{"link_name": ' + b"[" * depth + b"]" * depth + b"}"
            answer = await client.post("/v3/links", content=body, headers={"Content-Type": "application/json"})
            assert answer.status_code == 400, (depth, answer.text)
    assert [line["status"] for line in lines(api)] == [400] * 4


async def test_strangers_cannot_fill_the_disk(api: SecuredApi) -> None:
    async with api.client("") as client:
        await asyncio.gather(*(client.delete("/v3/links/l") for _ in range(50)))
        assert len(api.audit) == 10
        api.plane.now_ms += 1_000
        await client.delete("/v3/links/l")
    assert lines(api)[-1]["left_out"] == 40


async def test_a_job_that_says_again_what_it_said_is_told_once(api: SecuredApi) -> None:
    await api.plane.with_mirror("orders", 1)
    async with api.client("a-token-of-the-operator") as client:
        topics = [{"mirror_topic_name": "orders"}]
        for state in ("running", "running", "running", "done"):
            body = {"by": "spark", "state": state, "topics": topics}
            assert (await client.put("/v3/links/l/catch-up/j1", json=body)).status_code == 204
    assert [line["request"]["state"] for line in lines(api)] == ["running", "done"]


def test_the_trail_has_a_file_of_its_own(tmp_path: Path) -> None:
    logger = logging.getLogger(AUDIT)
    before = (logger.handlers[:], logger.propagate, logger.level)
    path, old = tmp_path / "audit.log", os.umask(0)
    try:
        configure_audit(str(path))
        logger.info('{"one": 1}')
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.rename(tmp_path / "audit.log.1")  # logrotate
        logger.info('{"two": 2}')
        assert path.read_text(encoding="utf-8") == '{"two": 2}\n'
        for handler in logger.handlers:
            handler.close()
        configure_audit()
        assert [getattr(handler, "stream", None) for handler in logger.handlers] == [sys.stdout]
        with patch.object(sys, "stdout", Mock(isatty=lambda: True)):
            configure_audit()
        assert [type(handler) for handler in logger.handlers] == [logging.NullHandler], "somebody types there"
        with pytest.raises(OSError, match="No such file"):
            configure_audit(str(tmp_path / "none" / "audit.log"))
    finally:
        os.umask(old)
        logger.handlers[:], logger.propagate = before[:2]
        logger.setLevel(before[2])


async def test_a_secret_that_is_a_config_of_confluents_path_is_hidden(api: SecuredApi) -> None:
    await api.plane.with_link("l")
    below = "/kafka/v3/clusters/T/links/l/configs"
    async with api.client() as client:
        await client.put(f"{below}/sasl.password", json={"value": SECRETS["sasl.password"]})
        await client.put(f"{below}/sasl.pasword", json={"value": SECRETS["sasl.pasword"]})
        data = [{"name": name, "value": value, "operation": "SET"} for name, value in SECRETS.items()]
        await client.put(f"{below}:alter", json={"data": data})
        await client.put(f"{below}/sasl.password", json=SECRETS["sasl.password"])
        await client.put(f"{below}/ack", json={"value": "both"})
    assert len(lines(api)) == 5
    assert "hunter" not in "".join(api.audit)
    assert lines(api)[-1]["request"] == {"value": "both"}


async def test_a_link_that_is_named_behind_the_question_mark(api: SecuredApi) -> None:
    async with api.client() as client:
        body = {"configs": entries(**{"bootstrap.servers": SOURCE})}
        created = await client.post("/kafka/v3/clusters/T/links?link_name=l", json=body)
        assert created.status_code == 204
    (line,) = lines(api)
    assert (line["before"], list(line["after"])) == ({}, ["link l"])


OPERATORS = b"Authorization: Bearer a-token-of-the-operator\r\nContent-Type: application/json\r\n"


async def post_raw(api: SecuredApi, path: str) -> tuple[int, str]:
    """As no HTTP library would send it. Returns status and body."""
    host = f"Host: 127.0.0.1:{api.settings.port}\r\n".encode()
    status, _, body = await api.raw(
        b"POST " + path.encode() + b" HTTP/1.1\r\n" + host + OPERATORS + b"Content-Length: 2\r\n\r\n{}"
    )
    return status, body


@pytest.mark.parametrize("up", ["..", "%2e%2e", "%2E.", "./..", "."])
async def test_a_path_leads_nowhere_else_than_it_says(api: SecuredApi, up: str) -> None:
    """Finding 12: the operation took another path than the line told, and a line that repeats was left out."""
    await api.plane.with_mirror("bills")
    for _ in range(2):
        status, body = await post_raw(api, f"/v3/links/l/groups/catch-up/{up}/{up}/mirrors/bills:promote")
        assert (status, "may not be in a path" in body) == (400, True)
    assert api.plane.state("bills").value == "ACTIVE"
    assert [(line["status"], line["principal"]) for line in lines(api)] == [(400, "olga")] * 2


async def test_the_line_tells_the_path_that_the_operation_went(api: SecuredApi) -> None:
    """Names may hold what stands for something else in a path."""
    await api.plane.with_mirror("orders")
    for name in ("a%2F..%2Fb", "a%23b", "a%3Fb", "a%2525"):
        status, _ = await post_raw(api, f"/v3/links/l/groups/{name}:demote")
        assert status == 404
    assert [line["path"].rpartition("/")[2] for line in lines(api)] == [
        "a%2F..%2Fb:demote",
        "a%23b:demote",
        "a%3Fb:demote",
        "a%2525:demote",
    ]


@pytest.mark.parametrize("path", ["/v3/links/l#x", "/v3/links/#", "/v3/links/l/groups/a:demote#", "//v3/links/a:b"])
async def test_a_path_that_is_none_is_no_fault_of_ours(
    api: SecuredApi, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Finding 13: a traceback in the log for each request of any token."""
    status, body = await post_raw(api, path)
    assert status == (400 if "#" in path else 404)
    assert "message" in body
    assert "Traceback" not in caplog.text


async def test_who_leaves_within_a_body_leaves_no_traceback(api: SecuredApi, caplog: pytest.LogCaptureFixture) -> None:
    """Finding 13."""
    host = f"Host: 127.0.0.1:{api.settings.port}\r\n".encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", api.settings.port)
    length = b"Content-Length: 20\r\nExpect: 100-continue\r\n\r\n"
    writer.write(b"POST /v3/links/l/mirrors HTTP/1.1\r\n" + host + OPERATORS + length)
    assert b" 100 " in await reader.readline()  # its body is waited for
    writer.transport.abort()
    await wait_until_async(lambda: api.connections == 0, what="the connection is gone")
    async with api.client() as client:
        assert (await client.get("/v3/status")).status_code == 200
    assert caplog.text == ""
