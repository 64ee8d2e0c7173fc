"""Kafka's ConfigProvider syntax in the properties of a link, and what of them is shown."""

from __future__ import annotations

import pytest

from gateway.operations.secrets.rules.references import (
    REDACTED,
    Reference,
    is_plain,
    reference,
    require_well_formed,
    shown,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("${file:/a/b.properties:pw}", Reference("file", "/a/b.properties", "pw")),
        ("${file:/a:p:w}", Reference("file", "/a", "p:w")),
        ("${dir:/run/secrets:pw}", Reference("dir", "/run/secrets", "pw")),
        ("${directory:/run/secrets:pw}", Reference("directory", "/run/secrets", "pw")),
        ("${env:LOCKGATE_LINK_PW}", Reference("env", "", "LOCKGATE_LINK_PW")),
        ("${encrypted:abc:Zm9v}", Reference("encrypted", "abc", "Zm9v")),
        ("hush", None),
        ("${vault:a:b}", None),
        ("${HOME}", None),
        ("x${env:A}", None),
        ("${env:A}\n", None),
        ("", None),
    ],
)
def test_reference(text: str, found: Reference | None) -> None:
    assert reference(text) == found
    assert is_plain(text) == (found is None and text != "")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "bootstrap.servers",
            "${env:LOCKGATE_LINK_X}",
            "only sasl.username, sasl.password, ssl.key.password, sasl.oauth",
        ),
        ("client.id", "a${env:LOCKGATE_LINK_X}", "client.id: a reference must be the whole value"),
        ("sasl.password", "a${env:LOCKGATE_LINK_X}", "sasl.password: a reference must be the whole value"),
        ("sasl.password", "${encrypted:abc:Zm9v}", "cannot be given to another link"),
        ("sasl.password", "${file:pw}", "expected .*file:/path:key"),
        ("sasl.password", "${env:/a:pw}", "expected .*file:/path:key"),
        ("sasl.password", "${dir:/a:}", "expected .*file:/path:key"),
    ],
)
def test_references_of_no_use(name: str, value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        require_well_formed({name: value})


def test_well_formed() -> None:
    require_well_formed({"sasl.username": "${env:A}", "sasl.password": "${file:/a:b}", "client.id": "$me {a}"})


def test_shown() -> None:
    client = {
        "sasl.username": "me",
        "sasl.password": "${file:/a:b}",
        "ssl.key.password": "hush",
        "sasl.jaas.config": "${env:A}",
        "my.password": "${env:A}",
    }
    assert shown(client) == {
        "sasl.username": "me",
        "sasl.password": "${file:/a:b}",
        "ssl.key.password": REDACTED,
        "sasl.jaas.config": REDACTED,
        "my.password": REDACTED,
    }
    assert shown({"sasl.password": "${encrypted:abc:Zm9v}"}) == {"sasl.password": REDACTED}
    assert shown({"sasl.password": "${env:A}x", "ssl.key.password": 7}) == dict.fromkeys(
        ("sasl.password", "ssl.key.password"), REDACTED
    )
