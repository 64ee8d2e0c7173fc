"""Whoever reads the audit trail learns no secret of a link that is changed while it runs."""

from __future__ import annotations

import json

import pytest

from gateway.api.access.audit import hide_secrets
from gateway.operations.secrets.rules.references import REDACTED


@pytest.mark.parametrize(
    "body",
    [
        {"data": [{"name": "sasl.password", "value": "hush"}]},
        {"data": [{"name": "sasl.password", "value": "hush", "operation": "SET"}], "validate_only": True},
        {"data": [{"name": "sasl.pasword", "value": "hush", "operation": "SET"}]},
        {"data": [{"name": "sasl.jaas.config", "value": 'x required username="u" password="hush";'}]},
        {"value": "hush"},
    ],
    ids=["alter", "alter with its operation", "a misspelt name", "jaas", "one config, which the path names"],
)
def test_a_secret_that_a_change_brings_is_hidden(body: object) -> None:
    shown = json.dumps(hide_secrets(body))
    assert "hush" not in shown
    assert REDACTED in shown


def test_what_is_no_secret_is_shown() -> None:
    body = {"data": [{"name": "ack", "value": "both", "operation": "SET"}, {"name": "ack", "operation": "DELETE"}]}
    assert hide_secrets(body) == body
