"""Whoever reads the audit trail learns no secret of a link that is changed while it runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.api.access.audit import hide_secrets
from gateway.api.access.roles import RouteTable
from gateway.api.app import create_app
from gateway.operations.secrets.rules.references import REDACTED
from gateway.telemetry.metrics import Metrics


def _unused() -> Any:
    raise AssertionError("nobody is asked")


APP = create_app(_unused, Metrics(), fleet=_unused)
TABLE = RouteTable(APP.rows)


@pytest.mark.parametrize(
    "body",
    [
        {"data": [{"name": "sasl.password", "value": "hush"}]},
        {"data": [{"name": "sasl.password", "value": "hush", "operation": "SET"}], "validate_only": True},
        {"data": [{"name": "sasl.pasword", "value": "hush", "operation": "SET"}]},
        {"data": [{"name": "sasl.jaas.config", "value": 'x required username="u" password="hush";'}]},
    ],
    ids=["alter", "alter with its operation", "a misspelt name", "jaas"],
)
def test_a_secret_that_a_change_brings_is_hidden(body: object) -> None:
    shown = json.dumps(hide_secrets(body))
    assert "hush" not in shown
    assert REDACTED in shown


def values_of_one_config() -> set[tuple[str, str]]:
    """Method and path of every route whose body is the value of a config that only the path names."""
    return {
        (method.upper(), path)
        for path, methods in APP.openapi()["paths"].items()
        for method, said in methods.items()
        if "ConfigValue" in json.dumps(said.get("requestBody", ""))
    }


def test_every_route_that_takes_a_value_alone_names_its_config() -> None:
    """Who adds one in a third shape of a path fails here, until its row in the table of routes names the config."""
    named = {(row.method, row.path.replace(":path", "")) for row in TABLE.rows if row.config}
    assert len(values_of_one_config()) == 2
    assert values_of_one_config() <= named
    assert all(f"{{{row.config}}}" in row.path.replace(":path", "") for row in TABLE.rows if row.config)


@pytest.mark.parametrize("path", ["/v3/links/l/configs/{}", "/kafka/v3/clusters/T/links/l/configs/{}"])
@pytest.mark.parametrize("body", [{"value": "hush"}, "hush", {"valeu": "hush"}, {"value": "hush", "more": "hush"}])
def test_the_value_of_a_config_that_the_path_names(path: str, body: object) -> None:
    for secret in ("sasl.password", "sasl.jaas.config", "sasl.pasword"):
        asked = TABLE.find("PUT", path.format(secret))
        assert asked is not None
        assert asked.config == secret
        assert "hush" not in json.dumps(hide_secrets(body, asked.config))
    asked = TABLE.find("PUT", path.format("ack"))
    assert asked is not None
    assert hide_secrets({"value": "both"}, asked.config) == {"value": "both"}


def test_other_routes_are_about_no_config() -> None:
    asked = TABLE.find("PUT", "/v3/links/l/configs:alter")
    assert asked is not None
    assert asked.config == ""


def test_what_is_no_secret_is_shown() -> None:
    body = {"data": [{"name": "ack", "value": "both", "operation": "SET"}, {"name": "ack", "operation": "DELETE"}]}
    assert hide_secrets(body) == body
