"""What is stored of a link's secrets, and what they stand for at a gateway that uses them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.operations.link_policy import LinkPolicy
from gateway.operations.secrets.link_secrets import LinkSecrets
from gateway.operations.secrets.rules.references import reference
from gateway.operations.secrets.sealing import SealingKeys
from gateway.state.gateway_records import GatewayRecord
from gateway.state.records import LinkRecord

LOGIN = {
    "bootstrap.servers": "source:9092",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
}
KEYS = SealingKeys([bytes(32)])
NEWER = SealingKeys([bytes(range(32)), bytes(32)])
POLICY = LinkPolicy(variables=("LOCKGATE_LINK_{LINK}_*",))
ENVIRONMENT = {"LOCKGATE_LINK_WEST_PW": "hush"}


def link(client: dict[str, str], name: str = "west") -> LinkRecord:
    return LinkRecord(name=name, link_id=1, source_cluster_id="S", client=client)


def secrets(keys: SealingKeys | None = None) -> LinkSecrets:
    return LinkSecrets(POLICY, keys, ENVIRONMENT)


@pytest.mark.parametrize(
    "given",
    [
        {"sasl.password": "hush"},
        {"sasl.jaas.config": 'x.PlainLoginModule required username="me" password="hush";'},
        {"sasl.password": "${env:LOCKGATE_LINK_WEST_PW}", "ssl.key.password": "hush"},
    ],
)
def test_without_a_key_no_secret_is_taken_as_it_is(given: dict[str, str]) -> None:
    with pytest.raises(
        ValueError, match=r"password: would be stored where others read it: give .* links.key_file"
    ) as e:
        secrets().accepted("west", {**LOGIN, **given})
    assert "hush" not in str(e.value)
    assert "\n" not in str(e.value)


def test_a_reference_is_stored_and_read_at_each_login() -> None:
    environment = dict(ENVIRONMENT)
    here = LinkSecrets(POLICY, None, environment)
    client = here.accepted("west", {**LOGIN, "sasl.password": "${env:LOCKGATE_LINK_WEST_PW}"})
    assert here.config("west", client).login() == ("me", "hush")
    stored = here.sealed("west", client)
    assert stored["sasl.password"] == "${env:LOCKGATE_LINK_WEST_PW}"
    config = here.config_of(link(stored))
    assert config.login() == ("me", "hush")
    environment["LOCKGATE_LINK_WEST_PW"] = "changed"
    assert config.login() == ("me", "changed")
    del environment["LOCKGATE_LINK_WEST_PW"]
    with pytest.raises(ValueError, match="^sasl.password: LOCKGATE_LINK_WEST_PW is not set"):
        config.login()
    with pytest.raises(ValueError, match="^sasl.password: LOCKGATE_LINK_WEST_PW is not set"):
        here.accepted("west", client)


def test_a_reference_in_a_jaas_config() -> None:
    jaas = 'x.ScramLoginModule required username="me" password="${env:LOCKGATE_LINK_WEST_PW}";'
    client = secrets().accepted(
        "west", {name: value for name, value in LOGIN.items() if name != "sasl.username"} | {"sasl.jaas.config": jaas}
    )
    assert client == {**LOGIN, "sasl.password": "${env:LOCKGATE_LINK_WEST_PW}"}


def test_with_a_key_a_secret_is_encrypted() -> None:
    here = secrets(KEYS)
    client = here.accepted("west", {**LOGIN, "sasl.password": "hush"})
    assert here.config("west", client).login() == ("me", "hush")
    stored = here.sealed("west", client)
    assert "hush" not in str(stored)
    found = reference(stored["sasl.password"])
    assert found is not None
    assert found.path == KEYS.id
    assert here.config_of(link(stored)).login() == ("me", "hush")


@pytest.mark.parametrize(
    "changed",
    [
        {"bootstrap.servers": "mine:9092"},
        {"sasl.mechanism": "SCRAM-SHA-256"},
        {"enable.ssl.certificate.verification": "false"},
    ],
)
def test_who_can_write_the_state_topic_learns_no_secret(changed: dict[str, str]) -> None:
    """By having a gateway log in to another broker with it, or in another way."""
    here = secrets(KEYS)
    stored = here.sealed("west", {**LOGIN, "sasl.password": "hush"})
    with pytest.raises(ValueError, match="was encrypted for other properties"):
        here.config_of(link({**stored, **changed})).login()
    with pytest.raises(ValueError, match="was encrypted for other properties"):
        here.config_of(link(stored, "east")).login()


def test_a_gateway_without_the_key_says_so_when_it_connects() -> None:
    """And not before: other links must not suffer."""
    stored = secrets(KEYS).sealed("west", {**LOGIN, "sasl.password": "hush"})
    with pytest.raises(ValueError, match="^sasl.password: is encrypted, and this gateway has no key: set links.k"):
        secrets().config_of(link(stored)).login()
    missing = {"ssl.ca.location": "/nowhere/ca.pem"}
    config = LinkSecrets(LinkPolicy("/nowhere"), KEYS).config_of(link({**stored, **missing}))
    with pytest.raises(ValueError, match="^ssl.ca.location: cannot read"):
        config.ssl_context()


def test_records_from_before() -> None:
    old = link({**LOGIN, "sasl.jaas.config": 'x.PlainLoginModule required username="me" password="hush";'})
    assert secrets().config_of(old).login() == ("me", "hush")
    assert secrets().is_outdated(old)
    here = secrets(KEYS)
    new = replace(old, client=here.renewed(old))
    assert "hush" not in str(new)
    assert not here.is_outdated(new)
    assert here.config_of(new).login() == ("me", "hush")

    newer = secrets(NEWER)
    assert newer.is_outdated(new)
    newest = replace(new, client=newer.renewed(new))
    assert not newer.is_outdated(newest)
    assert newer.config_of(newest).login() == ("me", "hush")
    assert not secrets().is_outdated(link({**LOGIN, "sasl.password": "${env:X}"}))


def test_who_lacks_the_key() -> None:
    def gateway(name: str, keys: str) -> GatewayRecord:
        return GatewayRecord(name=name, incarnation="1", role="node", peer="a:1", lease_ms=1, keys=keys)

    fleet = [gateway("c", ""), gateway("a", f"x,{KEYS.id}"), gateway("b", "x")]
    assert secrets(KEYS).lacking(fleet) == ["b", "c"]


def test_files_by_reference(tmp_path: Path) -> None:
    (tmp_path / "west").mkdir()
    (tmp_path / "west" / "of.properties").write_text("pw=hush\n", encoding="ascii")
    here = LinkSecrets(LinkPolicy(str(tmp_path)))
    client = here.accepted("west", {**LOGIN, "sasl.password": f"${{file:{tmp_path}/west/of.properties:pw}}"})
    assert here.config("west", client).login() == ("me", "hush")
