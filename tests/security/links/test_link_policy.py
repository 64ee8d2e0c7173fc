"""What creating a link may make a gateway do: no file outside the links' folder is read, no check switched off."""

from __future__ import annotations

import builtins
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.kafka.connection.connection import Connection
from gateway.kafka.connection.errors import ClusterUnavailable
from gateway.kafka.connection.sasl import bearer_token
from gateway.operations.link_policy import LinkPolicy
from gateway.operations.secrets.link_secrets import LinkSecrets
from gateway.state.records import LinkRecord
from gateway.state.schemas.registry_properties import RegistrySide
from tests.support.control.control_plane import SOURCE
from tests.support.control.secured_api import secured_api

FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")


def link(**client: str) -> dict[str, Any]:
    configs = {"bootstrap.servers": SOURCE, **{name.replace("_", "."): value for name, value in client.items()}}
    return {"link_name": "l", "configs": [{"name": name, "value": value} for name, value in configs.items()]}


@pytest.mark.parametrize("name", FILES)
async def test_a_link_probes_no_file(tmp_path: Path, name: str) -> None:
    """A file that is there, one that is not, and one that may not be read: the same answer, about none of them."""
    there = tmp_path / "secret.pem"
    there.write_text("secret", encoding="ascii")
    async with secured_api(tmp_path) as api, api.client() as client:
        said = set()
        for path in (there, tmp_path / "none.pem", Path("/etc/shadow"), Path("/proc/self/environ"), Path("/")):
            body = link(**{"security.protocol": "SSL", name: str(path)})
            answer = await client.post("/v3/links", json=body)
            assert answer.status_code == 400
            said.add(answer.json()["message"])
        assert said == {
            f"{name}: links may not name files; links.files in the gateway's settings is the folder for them"
        }


def test_nothing_outside_the_folder_is_even_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    outside = tmp_path / "outside.pem"
    outside.write_text("x", encoding="ascii")
    (folder / "link.pem").symlink_to(outside)
    (folder / "good.pem").write_text("x", encoding="ascii")
    (folder / "also.pem").symlink_to("good.pem")
    (folder / "up").symlink_to(tmp_path)
    policy = LinkPolicy(str(folder))
    opened: list[str] = []
    monkeypatch.setattr(builtins, "open", lambda name, *_: opened.append(str(name)))
    for path in (
        str(outside),
        f"{folder}/../outside.pem",
        f"{folder}/link.pem",
        f"{folder}/up/outside.pem",
        f"{folder}x/good.pem",
        "/etc/shadow",
        f"{folder}/good.pem\0.txt",
    ):
        with pytest.raises(ValueError, match="not in the folder of links' files"):
            policy.require("west", {"ssl.ca.location": path})
    for path in (f"{folder}/good.pem", f"{folder}/also.pem", f"{folder}/./good.pem", f"{folder}/not-there.pem"):
        policy.require("west", {"ssl.ca.location": path})
    assert opened == []


def test_a_folder_that_is_a_link_itself(tmp_path: Path) -> None:
    real, alias = tmp_path / "real", tmp_path / "alias"
    real.mkdir()
    (real / "ca.pem").write_text("x", encoding="ascii")
    alias.symlink_to(real)
    LinkPolicy(str(alias)).require("west", {"ssl.ca.location": str(alias / "ca.pem")})


def test_a_relative_path_is_what_the_process_would_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="not in the folder"):
        LinkPolicy("/etc/links").require("west", {"ssl.ca.location": "ca.pem"})
    LinkPolicy(os.fspath(tmp_path)).require("west", {"ssl.ca.location": "ca.pem"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enable.ssl.certificate.verification", "false"),
        ("enable.ssl.certificate.verification", "FALSE"),
        ("ssl.endpoint.identification.algorithm", "none"),
        ("ssl.endpoint.identification.algorithm", ""),
    ],
)
async def test_a_link_switches_no_check_off(tmp_path: Path, name: str, value: str) -> None:
    body = link(**{"security.protocol": "SSL", name: value})
    async with secured_api(tmp_path) as api, api.client() as client:
        answer = await client.post("/v3/links", json=body)
        assert answer.status_code == 400
        assert answer.json()["message"].startswith(f"{name}: a link must check its brokers'")
        assert "links.allow_unverified_tls" in answer.json()["message"]
    LinkPolicy(allow_unverified_tls=True).require("west", {name: value})
    LinkPolicy().require("west", {"enable.ssl.certificate.verification": "true"})
    LinkPolicy().require("west", {"ssl.endpoint.identification.algorithm": "https"})


def stored(**client: str) -> LinkRecord:
    """A link as whoever can write the state topic may store it: nobody has looked at it."""
    named = {name.replace("_", "."): value for name, value in client.items()}
    return LinkRecord(
        name="west", link_id=1, source_cluster_id="S", client={"bootstrap.servers": "127.0.0.1:1", **named}
    )


@pytest.mark.parametrize("name", ["links.key", "api.token", "other", "elsewhere"])
async def test_a_stored_link_has_no_file_of_the_gateway_sent_as_its_token(tmp_path: Path, name: str) -> None:
    """Finding 7. Nor when the folder of links' files holds the gateway's own, or a hard link to one."""
    folder = tmp_path / "links" / "west"
    folder.mkdir(parents=True)
    own = tmp_path / "api.token"
    own.write_text("the-admins-token", encoding="ascii")
    for inside in ("links.key", "api.token", "other"):
        (folder / inside).hardlink_to(own)
    (tmp_path / "elsewhere").write_text("a-line-of-another-service", encoding="ascii")
    path = tmp_path / name if name == "elsewhere" else folder / name
    link = stored(
        security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_endpoint_url=path.as_uri()
    )
    config = LinkSecrets(LinkPolicy(str(tmp_path / "links"), own=(str(own),))).config_of(link)
    with pytest.raises(ValueError, match=r"^sasl\.oauthbearer\.token\.endpoint\.url: .*(no link may name it|not in)"):
        await bearer_token(config)


async def test_a_stored_link_has_no_pem_file_read_outside_its_folder(tmp_path: Path) -> None:
    link = stored(
        security_protocol="SSL", ssl_certificate_location="/etc/ssl/private/x", ssl_key_location="/etc/shadow"
    )
    config = LinkSecrets(LinkPolicy(str(tmp_path))).config_of(link)
    for read in (config.ssl_context, config.ssl_context_for_others):
        with pytest.raises(ValueError, match="is not in the folder of links' files"):
            read()


async def test_a_stored_link_is_held_to_the_hosts_that_links_may_ask() -> None:
    """Brokers, and those that brokers name; registries and endpoints of tokens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        policy = LinkPolicy(hosts=("*.west.example:9093", "registry.example"))
        config = LinkSecrets(policy).config_of(stored())
        with pytest.raises(ClusterUnavailable, match=r"127\.0\.0\.1:.* none of those whom links may ask"):
            await Connection.open("127.0.0.1", port, config)
        with pytest.raises(BlockingIOError):
            server.accept()
    side = RegistrySide.SOURCE
    for url, allowed in {"https://registry.example": True, "https://169.254.169.254/latest": False}.items():
        link = replace(stored(), registries={f"{side.prefix}url": url})
        if allowed:
            assert LinkSecrets(policy).registry(link, side).url == url
            continue
        with pytest.raises(ValueError, match=r"url: 169.254.169.254:443 is none of those whom links may ask"):
            LinkSecrets(policy).registry(link, side)


def test_hosts_that_links_may_ask() -> None:
    policy = LinkPolicy(hosts=("*.west.example:9093", "B.example", "[::1]:9092", "10.0.0.*"))
    for host, port in (("b1.west.example", 9093), ("b.EXAMPLE", 1), ("::1", 9092), ("10.0.0.7", 1)):
        policy.require_broker("PLAINTEXT", "", host, port)
    for host, port in (
        ("b1.west.example", 9092),
        ("west.example", 9093),
        ("xb.example", 1),
        ("::1", 1),
        ("b.examplex", 1),
    ):
        with pytest.raises(ValueError, match=r"links\.hosts"):
            policy.require_broker("PLAINTEXT", "", host, port)
    with pytest.raises(ValueError, match=r"endpoint\.url: idp\.example:443 is none of"):
        policy.require("west", {"sasl.oauthbearer.token.endpoint.url": "https://idp.example/token"})


@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER", "plain"])
async def test_a_link_sends_no_login_that_others_can_read(tmp_path: Path, mechanism: str) -> None:
    """Finding 11: whoever may make links would read any secret that links may refer to."""
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    for servers in ("203.0.113.9:9092", "127.0.0.1:9092,source.example:9092"):
        with pytest.raises(ValueError, match=r"would be sent to .* without TLS.*links\.allow_unverified_tls"):
            LinkPolicy().require("west", {**login, "bootstrap.servers": servers})
        LinkPolicy(allow_unverified_tls=True).require("west", {**login, "bootstrap.servers": servers})
    LinkPolicy().require("west", {**login, "bootstrap.servers": "127.0.0.1:9092,localhost:1,[::1]:2"})
    scram = {**login, "sasl.mechanism": "SCRAM-SHA-512", "bootstrap.servers": "source.example:9092"}
    LinkPolicy().require("west", scram)
    body = link(**login, **{"bootstrap.servers": "203.0.113.9:9092"})
    async with secured_api(tmp_path) as api, api.client() as client:
        for query in ("", "?validate_only=true"):
            answer = await client.post(f"/v3/links{query}", json=body)
            assert answer.status_code == 400
            assert "would be sent to 203.0.113.9 without TLS" in answer.json()["message"]


async def test_a_broker_on_this_machine_leads_no_login_to_another_one() -> None:
    """What listens on loopback may name any broker in its metadata."""
    login = {"sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "${env:PW}"}
    link = stored(security_protocol="SASL_PLAINTEXT", **login)
    config = LinkSecrets(LinkPolicy(variables=("PW",)), environment={"PW": "hush"}).config_of(link)
    with pytest.raises(ClusterUnavailable, match=r"PLAIN would be sent to 192\.0\.2\.1 without TLS"):
        await Connection.open("192.0.2.1", 9092, config)
