"""What creating a link may make a gateway do: no file outside the links' folder is read, no check switched off."""

from __future__ import annotations

import builtins
import os
from pathlib import Path
from typing import Any

import pytest

from gateway.operations.link_policy import LinkPolicy
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
            policy.require({"ssl.ca.location": path})
    for path in (f"{folder}/good.pem", f"{folder}/also.pem", f"{folder}/./good.pem", f"{folder}/not-there.pem"):
        policy.require({"ssl.ca.location": path})
    assert opened == []


def test_a_folder_that_is_a_link_itself(tmp_path: Path) -> None:
    real, alias = tmp_path / "real", tmp_path / "alias"
    real.mkdir()
    (real / "ca.pem").write_text("x", encoding="ascii")
    alias.symlink_to(real)
    LinkPolicy(str(alias)).require({"ssl.ca.location": str(alias / "ca.pem")})


def test_a_relative_path_is_what_the_process_would_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="not in the folder"):
        LinkPolicy("/etc/links").require({"ssl.ca.location": "ca.pem"})
    LinkPolicy(os.fspath(tmp_path)).require({"ssl.ca.location": "ca.pem"})


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
    LinkPolicy(allow_unverified_tls=True).require({name: value})
    LinkPolicy().require({"enable.ssl.certificate.verification": "true"})
    LinkPolicy().require({"ssl.endpoint.identification.algorithm": "https"})
