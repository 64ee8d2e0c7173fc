"""The Compose file: what its schema takes, with settings that a gateway reads, and commands that there are."""

from __future__ import annotations

import re
import shlex
import subprocess
from typing import Any, Final

import pytest
import typer
import yaml

from gateway.cli.main import app
from gateway.config.file import load
from tests.support.deploy.chart import DEFINITIONS, ROOT, VALIDATOR

FOLDER: Final = ROOT / "deploy" / "compose"
FILE: Final = FOLDER / "compose.yaml"
SCHEMA: Final = DEFINITIONS / "compose-spec.json"
PAGE: Final = ROOT / "docs" / "operate" / "compose.md"
_CHECK: Final = """
import json, sys, jsonschema, yaml
schema, file = (open(name, encoding="utf-8").read() for name in sys.argv[1:])
checker = jsonschema.Draft7Validator(json.loads(schema))
for error in checker.iter_errors(yaml.safe_load(file)):
    print(".".join(map(str, error.absolute_path)), error.message)
"""


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return dict(yaml.safe_load(FILE.read_text(encoding="utf-8"))["services"])


@pytest.mark.skipif(not SCHEMA.exists(), reason="the schema is not there: make deploy-tools")
def test_it_is_what_compose_takes() -> None:
    command = [str(VALIDATOR), "-c", _CHECK, str(SCHEMA), str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_published_port_is_listened_on(services: dict[str, Any]) -> None:
    settings = load(FOLDER / "gateway.yaml")
    machine = settings.listeners["machine"]
    inside = {port.rpartition(":")[2] for port in services["gateway"]["ports"]}
    forwarded = re.findall(r"TCP-LISTEN:(\d+)", " ".join(services["api"]["command"]))
    assert inside == {f"{machine.bootstrap_port}-{machine.base_port}", str(settings.management.port), *forwarded}
    assert f"TCP:127.0.0.1:{settings.api.port}" in services["api"]["command"]
    assert all(port.startswith("127.0.0.1:") for port in services["gateway"]["ports"])


def test_what_a_service_waits_for_is_there(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert how["condition"] != "service_healthy" or "healthcheck" in services[other], (name, other)


def test_the_gateway_has_no_more_than_it_needs(services: dict[str, Any]) -> None:
    gateway = services["gateway"]
    assert (gateway["read_only"], gateway["cap_drop"]) == (True, ["ALL"])
    assert gateway["security_opt"] == ["no-new-privileges:true"]


def commands() -> list[str]:
    """All that the file and its page have somebody, or a container, type."""
    found = []
    for text in (FILE.read_text(encoding="utf-8"), PAGE.read_text(encoding="utf-8")):
        found += re.findall(r"^\s*(?:[^\n]*exec gateway )?(lockgate (?:link|mirror) [^\n&#]+)", text, re.MULTILINE)
        found += re.findall(r"exec gateway (lockgate [^\n&#]+)", text)
    return sorted({each.strip() for each in found})


@pytest.mark.parametrize("command", commands())
def test_commands_are_understood(command: str) -> None:
    here: Any = typer.main.get_command(app)
    _, *words = shlex.split(command)
    while words and words[0] in getattr(here, "commands", {}):
        here = here.commands[words.pop(0)]
    assert not hasattr(here, "commands"), f"there is no such command: {command}"
    here.make_context("lockgate", words, resilient_parsing=False)


def test_there_are_commands() -> None:
    assert {"lockgate link create west --bootstrap source:9092", "lockgate mirror create orders --link west"} <= set(
        commands()
    )
