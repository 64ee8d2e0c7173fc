"""The properties of schema registries: what they mean, what is refused, and how their secrets are kept."""

from __future__ import annotations

import base64
import secrets as random
from pathlib import Path

import pytest

from gateway.errors import BadRequest
from gateway.links.rules.update import ConfigChange
from gateway.operations.link_policy import LinkPolicy
from gateway.operations.secrets.link_secrets import LinkSecrets
from gateway.operations.secrets.rules.references import shown
from gateway.operations.secrets.sealing import keys_of
from gateway.state.records import LinkRecord
from gateway.state.schemas.registry_properties import RegistrySide, registry_config
from tests.support.control.control_plane import PROPERTIES, Plane

S, T = RegistrySide.SOURCE.prefix, RegistrySide.TARGET.prefix
URL = {S + "url": "https://old:8081/"}
LOGIN = {**URL, S + "basic.auth.username": "sync", S + "basic.auth.password": "s3cret"}


def with_keys(*raw: bytes) -> LinkSecrets:
    return LinkSecrets(LinkPolicy(), keys_of("\n".join(base64.b64encode(key).decode() for key in raw)))


def test_what_they_mean():
    assert registry_config({}, RegistrySide.SOURCE) is None
    found = registry_config({**LOGIN, S + "ssl.ca.location": "/ca.pem"}, RegistrySide.SOURCE)
    assert found is not None
    assert (found.url, found.username, found.password, found.tls.ca) == (
        "https://old:8081",
        "sync",
        "s3cret",
        "/ca.pem",
    )
    assert "s3cret" not in repr(found)
    assert registry_config(LOGIN, RegistrySide.TARGET) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({S + "ssl.ca.location": "/ca"}, f"{S}url: missing"),
        ({S + "url": "ftp://a"}, f"{S}url: expected http"),
        ({S + "url": "http://a b"}, f"{S}url: expected http"),
        ({S + "url": "http://a?b=c"}, f"{S}url: expected http"),
        ({S + "url": "http://[a"}, f"{S}url: expected http"),
        ({S + "url": "https://u:p@a"}, "a login does not belong into the URL"),
        ({**URL, S + "basic.auth.username": "a"}, f"{S}basic.auth.password: missing"),
        ({**LOGIN, S + "bearer.auth.token": "t"}, "one login is possible"),
        ({**URL, S + "ssl.key.location": "/k"}, f"{S}ssl.certificate.location is missing"),
        ({**URL, S + "nope": "x"}, f"{S}nope: unknown property"),
    ],
)
def test_what_is_refused(given: dict[str, str], words: str):
    with pytest.raises(ValueError, match=words.replace("[", r"\[").replace(".", r"\.")):
        registry_config(given, RegistrySide.SOURCE)


def test_secrets_are_encrypted_and_bound_to_their_registry():
    keys = with_keys(random.token_bytes(32))
    sealed = keys.sealed_registries("west", {**LOGIN, T + "url": "https://new", T + "bearer.auth.token": "t0ken"})
    assert {name for name, value in sealed.items() if value.startswith("${encrypted:")} == {
        S + "basic.auth.password",
        T + "bearer.auth.token",
    }
    assert "s3cret" not in str(sealed)
    assert set(shown(sealed).values()) == {"https://old:8081/", "https://new", "sync", "********"}
    moved = {**sealed, S + "url": "https://attacker"}
    link = link_with(moved)
    with pytest.raises(ValueError, match="was encrypted for other properties"):
        keys.registry(link, RegistrySide.SOURCE)
    assert keys.registry(link, RegistrySide.TARGET).token == "t0ken"


def link_with(registries: dict[str, str]) -> LinkRecord:
    return LinkRecord(name="west", link_id=1, source_cluster_id="S", client=PROPERTIES, registries=registries)


def test_a_new_key_renews_them():
    old, new = random.token_bytes(32), random.token_bytes(32)
    link = link_with(with_keys(old).sealed_registries("west", LOGIN))
    both = with_keys(new, old)
    assert both.is_outdated(link)
    renewed = link_with(both.renewed_registries(link))
    assert not both.is_outdated(renewed)
    assert with_keys(new).registry(renewed, RegistrySide.SOURCE).password == "s3cret"


def test_what_a_link_may_name(tmp_path: Path):
    policy = LinkPolicy(files=str(tmp_path))
    (tmp_path / "west").mkdir()
    (tmp_path / "west" / "password").write_text("s3cret\n")
    reference = {**LOGIN, S + "basic.auth.password": f"${{dir:{tmp_path}/west:password}}"}
    there = LinkSecrets(policy)
    assert there.accepted_registries("west", reference) == reference
    assert there.registry(link_with(reference), RegistrySide.SOURCE).password == "s3cret"
    for given, words in (
        (LOGIN, "would be stored where others read it"),
        ({**URL, S + "ssl.ca.location": "/etc/passwd"}, "is not in the folder of links' files"),
        ({**reference, S + "url": "http://old"}, "would be sent over http://"),
        ({**URL, S + "url": "${env:X}"}, "may be references"),
        ({**URL, S + "basic.auth.username": "a", S + "basic.auth.password": "${env:X}"}, "may not name the variable X"),
    ):
        with pytest.raises(ValueError, match=words):
            there.accepted_registries("west", given)
    open_one = LinkSecrets(LinkPolicy(files=str(tmp_path), allow_unverified_tls=True))
    assert open_one.accepted_registries("west", {**reference, S + "url": "http://old"})


async def test_a_link_is_changed_while_it_runs(plane: Plane):
    """A stored secret is only used for what it was given for; what stays is not asked for again."""
    plane.parts.sources.secrets = with_keys(random.token_bytes(32))
    registries = {**LOGIN, T + "url": "https://new"}
    view = await plane.service.links.create("l", {**PROPERTIES, **registries})
    assert (view.client[S + "basic.auth.password"], view.client[T + "url"]) == ("********", "https://new")
    stored = plane.store.links["l"]
    alter = plane.service.link_updates.alter
    await alter("l", [ConfigChange(T + "url", "https://newer"), ConfigChange("acl.sync.ms", "9000")])
    changed = plane.store.links["l"]
    assert changed.registries[T + "url"] == "https://newer"
    assert plane.parts.sources.secrets.registry(changed, RegistrySide.SOURCE).password == "s3cret"
    assert changed.client == stored.client
    with pytest.raises(BadRequest, match=r"basic\.auth\.password: give it again, since schema\.source\.registry\.url"):
        await alter("l", [ConfigChange(S + "url", "https://elsewhere")])
    await alter("l", [ConfigChange(S + "url", "https://elsewhere"), ConfigChange(S + "basic.auth.password", "other")])
    assert plane.parts.sources.secrets.registry(plane.store.links["l"], RegistrySide.SOURCE).password == "other"
    with pytest.raises(BadRequest, match=r"nope: unknown client property or link option"):
        await alter("l", [ConfigChange(S + "nope", "x")])
