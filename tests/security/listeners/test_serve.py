"""`lockgate serve` as it comes, before a real cluster: closed, found by the command, and honest about what it can."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from gateway.api.access.token_file import default_path
from gateway.devcluster import DevCluster
from tests.support.brokers.toxiproxy import Proxy
from tests.support.gateways.gateway import GatewayProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]
PROGRAM = [sys.executable, "-c", "from gateway.cli.main import main; main()"]


@pytest.fixture
def gateway(target: DevCluster, target_proxy: Proxy, tmp_path: Path) -> Iterator[GatewayProcess]:
    made = GatewayProcess(tmp_path, target.proxied_bootstrap, target={"metadata.max.age.ms": 500})
    made.from_nothing = True
    try:
        made.start()
        yield made
    finally:
        made.close()


def lockgate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_it_is_closed_and_the_command_finds_the_key(
    gateway: GatewayProcess, source: DevCluster, tmp_path: Path
) -> None:
    url = str(gateway.api.base_url)
    token = default_path(os.environ).read_text(encoding="ascii").strip()
    for path in ("/v3/links", "/v3/gateways", "/v3/status", "/metrics", "/openapi.json"):
        assert httpx.get(f"{url}{path}", trust_env=False).status_code == 401
    assert httpx.get(f"{url}/health", trust_env=False).json()["status"] == "ok"

    listed = lockgate("link", "list", "--url", url)  # others may have left theirs: the target is every test's
    assert (listed.returncode, listed.stderr) == (0, "")
    secrets = tmp_path / "source.properties"
    secrets.write_text("client.id=c\nsasl.password=the-password-of-a-link\n", encoding="utf-8")
    name = f"l-{tmp_path.name}"
    create = ("link", "create", name, "--url", url, "--bootstrap", source.bootstrap)
    made = lockgate(*create, "--config", str(secrets))
    assert "sasl.password: would be stored where others read it" in made.stderr
    assert "the-password-of-a-link" not in made.stderr
    made = lockgate(*create, "--set", "client.id=c")
    assert made.returncode == 0, made.stderr
    assert lockgate("link", "delete", name, "--url", url, "--force").returncode == 0

    process = Path(f"/proc/{gateway.pid}")
    log = gateway.log.read_bytes()
    for seen in (log, (process / "cmdline").read_bytes()):
        assert token.encode() not in seen
        assert b"the-password-of-a-link" not in seen
    trail = [json.loads(line) for line in log.decode().splitlines() if line.startswith("{")]
    assert [(line["principal"], line["method"], line["result"]) for line in trail] == [
        ("local", "POST", "refused"),
        ("local", "POST", "done"),
        ("local", "DELETE", "done"),
    ]
    assert f"link {name}" in trail[1]["after"]
    assert f"link {name}" in trail[2]["before"]
    limits = {line[:26].strip(): line[26:].split() for line in (process / "limits").read_text("ascii").splitlines()}
    assert limits["Max open files"][0] == limits["Max open files"][1]
    assert limits["Max core file size"][:2] == ["0", "0"]


def test_ready_says_that_the_target_is_gone_and_health_does_not(gateway: GatewayProcess, target_proxy: Proxy) -> None:
    def ready() -> dict[str, Any]:
        found: dict[str, Any] = gateway.api.get("/ready").json()
        print(found)  # noqa: T201 - shown when the test fails
        return found

    wait_until(lambda: ready()["status"] == "ok", 30.0, what="ready")
    assert gateway.api.get("/ready").status_code == 200
    with target_proxy.being_cut():
        told = wait_until(lambda: said if (said := ready())["status"] == "failing" else None, 30.0, what="not ready")
        assert told is not None
        assert told["checks"]["target"] not in ("ok", "failed")
        assert gateway.api.get("/ready").status_code == 503
        assert gateway.api.get("/health").json() == {"status": "ok", "checks": {"listeners": "ok"}}
        stranger = httpx.get(f"{gateway.api.base_url}/ready", trust_env=False)
        assert stranger.status_code == 503
        assert set(stranger.json()["checks"].values()) <= {"ok", "failed"}
        assert stranger.json()["checks"]["target"] == "failed"
    wait_until(lambda: ready()["status"] == "ok", 60.0, what="ready again")


def test_it_does_not_start_where_others_reach_it(tmp_path: Path) -> None:
    file = tmp_path / "gw.yaml"
    file.write_text(yaml.safe_dump({"target": {"bootstrap.servers": "a:1"}, "api": {"host": "0.0.0.0"}}), "utf-8")
    done = lockgate("serve", "--config", str(file))
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: {file}:1: api: host 0.0.0.0 can be reached from other machines: set tls, and"
    )
    assert done.stderr.count("\n") == 1
