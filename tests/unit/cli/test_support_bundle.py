"""`lockgate support-bundle`: all that is needed to find out what is wrong, and no secret in it."""

from __future__ import annotations

import json
import os
import stat
import tarfile
from pathlib import Path

import pytest
import yaml

from gateway.cli.secrets_in import scrubbed, secrets_in, shown_settings
from tests.support.control.control_server import ControlServer
from tests.unit.cli.conftest import Run

SETTINGS = """
target:
  bootstrap.servers: 127.0.0.1:9092
  security.protocol: SASL_SSL
  sasl.mechanism: PLAIN
  sasl.username: gateway
  sasl.password: seeded-of-the-target
  sasl.pasword: seeded-misspelt
  ssl.key.password: ${TARGET_KEY}
listener:
  tls: {certificate: a.crt, key: a.key, key_password: seeded-of-a-key}
links:
  key_file: %s/links.key
api:
  token_file: %s/api.token
  principals: [{name: olga, role: operator, token_file: %s/olga.token}]
"""
SEEDED = (
    "seeded-of-the-target",
    "seeded-misspelt",
    "seeded-of-a-key",
    "seeded-of-a-variable",
    "seeded-of-a-link",
    "seeded-of-the-sealing-key",
    "seeded-of-the-admin",
    "seeded-of-olga",
)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "links.key").write_text("seeded-of-the-sealing-key\n", encoding="ascii")
    (tmp_path / "api.token").write_text("seeded-of-the-admin\n", encoding="ascii")
    (tmp_path / "olga.token").write_text("seeded-of-olga\n", encoding="ascii")
    monkeypatch.setenv("TARGET_KEY", "seeded-of-a-variable")
    monkeypatch.setenv("LOCKGATE_LINK_L_PASSWORD", "seeded-of-a-link")
    file = tmp_path / "gateway.yaml"
    file.write_text(SETTINGS % ((tmp_path,) * 3), encoding="ascii")
    return file


def test_all_in_one_file_of_its_owner_and_no_secret(
    linked: ControlServer, run: Run, settings: Path, tmp_path: Path
) -> None:
    run("mirror", "create", "orders", "--link", "l")
    log = tmp_path / "gateway.log"
    lines = [f"the password is {each}\n" for each in SEEDED]
    log.write_text("x" * (9 << 20) + "\n" + "".join(lines), encoding="ascii")
    file = tmp_path / "bundle.tar.gz"
    told = run("support-bundle", "--config", str(settings), "--log", str(log), "--to", str(file), "-o", "json")
    assert json.loads(told.stdout)["file"] == str(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with tarfile.open(file) as bundle:
        parts = {one.name.removeprefix("lockgate-support/"): bundle.extractfile(one).read() for one in bundle}  # type: ignore[union-attr]
    assert {
        "versions.json",
        "settings.yaml",
        "gateway.log",
        "rest/metrics.txt",
        "rest/health.json",
        "rest/gateways.json",
        "rest/links/l/link.json",
        "rest/links/l/mirrors.json",
        "rest/links/l/groups.json",
    } <= parts.keys()
    assert not [name for name, data in parts.items() if b"seeded" in data]
    assert parts["gateway.log"].count(b"the password is ********") == len(SEEDED)
    assert json.loads(parts["rest/links/l/mirrors.json"])["data"][0]["mirror_topic_name"] == "orders"
    assert "httpx" in json.loads(parts["versions.json"])["packages"]
    run("support-bundle", "--to", str(file), code=1)  # nothing is written over


def test_what_shows_of_settings(settings: Path) -> None:
    found = yaml.safe_load(settings.read_text(encoding="ascii"))
    told = shown_settings(found)
    assert told["target"]["sasl.username"] == "gateway"
    assert told["target"]["bootstrap.servers"] == "127.0.0.1:9092"
    assert told["listener"]["tls"] == {"certificate": "a.crt", "key": "a.key", "key_password": "********"}
    assert told["api"]["principals"][0]["token_file"].endswith("olga.token")
    assert "seeded" not in str(told)


def test_what_is_searched_for(settings: Path) -> None:
    known = secrets_in(yaml.safe_load(settings.read_text(encoding="ascii")), os.environ, "sent-by-this", "on")
    assert {"seeded-of-the-sealing-key", "seeded-of-a-variable", "seeded-of-a-link", "sent-by-this"} <= known
    assert "on" not in known
    assert scrubbed("a secret-longer b", ["secret", "secret-longer"]) == "a ******** b"
    jaas = 'x.PlainLoginModule required username="me" password="hush-hush";'
    assert "hush-hush" in secrets_in({"target": {"sasl.jaas.config": jaas}}, {})
