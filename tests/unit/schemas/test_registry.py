"""The client of a registry on the wire: logins, TLS, what is not there, and answers of no use."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.errors import Conflict, SourceUnreachable, TargetUnreachable
from gateway.kafka.connection.config import TlsConfig
from gateway.operations.link_tasks import TaskErrorCode
from gateway.schemas import registry as registry_module
from gateway.schemas.registry import Registry, RegistryRefused, RegistryUnreachable, as_control_error, task_code
from gateway.schemas.rules import model
from gateway.schemas.rules.model import IMPORT, Schema
from gateway.state.schemas.registry_properties import RegistryConfig, RegistrySide
from tests.support.identities.certificates import Certificates
from tests.support.registries.served import served
from tests.support.registries.strict_registry import StrictRegistry

SOURCE, TARGET = RegistrySide.SOURCE, RegistrySide.TARGET
STRING = Schema('{"type":"string"}')


def opened(url: str, **more: str) -> Registry:
    return Registry(TARGET, RegistryConfig(url=url, prefix=TARGET.prefix, **more))  # type: ignore[arg-type]


async def test_every_request():
    with served(StrictRegistry()) as url:
        async with opened(url) as client:
            assert await client.subjects() == []
            assert (await client.mode(), await client.mode("a/b"), await client.level("a/b")) == ("READWRITE", "", "")
            await client.set_mode("a/b", IMPORT)
            assert await client.register("a/b", STRING.body(), schema_id=7, number=3, normalize=True) == 7
            assert (await client.numbers("a/b", deleted=False), await client.mode("a/b")) == (frozenset({3}), IMPORT)
            found = await client.version("a/b", 3)
            assert found is not None
            assert (found.id, found.schema, await client.schema(7)) == (7, STRING, STRING)
            assert await client.uses(7) == [("a/b", 3)]
            await client.set_level("a/b", "FULL")
            assert (await client.level("a/b"), await client.level()) == ("FULL", "BACKWARD")
            await client.set_level("a/b", "")
            await client.set_mode("a/b", "")
            assert (await client.level("a/b"), await client.mode("a/b")) == ("", "")
            assert await client.lookup("a/b", STRING.body(), normalize=True) == found
            await client.delete("a/b", 3)
            assert not await client.numbers("a/b", deleted=False)
            assert await client.numbers("a/b", deleted=True) == {3}
            await client.delete("a/b", 3, permanent=True)
            assert (await client.version("a/b", 3), await client.schema(7), await client.uses(7)) == (None, None, [])
            assert await client.lookup("a/b", STRING.body(), normalize=True) is None


async def test_what_is_refused():
    with served(StrictRegistry()) as url:
        async with opened(url) as client:
            with pytest.raises(
                RegistryRefused, match=r"Subject a is not in import mode \(HTTP 422, 42205\)"
            ) as refused:
                await client.register("a", STRING.body(), schema_id=7, number=1, normalize=False)
    assert (refused.value.status, refused.value.code, refused.value.is_absent) == (422, 42205, False)
    assert task_code(refused.value) is TaskErrorCode.POLICY_VIOLATION_ERROR
    assert isinstance(as_control_error(refused.value), Conflict)


@pytest.mark.parametrize("login", ["alice:s3:cret", "a-token"])
async def test_logins(login):
    name, _, password = login.partition(":")
    right = {"username": name, "password": password} if password else {"token": login}
    with served(StrictRegistry(), login=login) as url:
        async with opened(url, **right) as client:
            assert await client.subjects() == []
        async with opened(url, **{key: f"{value}x" for key, value in right.items()}) as client:
            with pytest.raises(RegistryRefused, match=r"Unauthorized \(HTTP 401, 40101\)") as refused:
                await client.subjects()
    assert task_code(refused.value) is TaskErrorCode.AUTHENTICATION_ERROR
    assert isinstance(as_control_error(refused.value), TargetUnreachable)
    assert "s3:cret" not in str(refused.value)


async def test_tls(tmp_path: Path):
    pki, others = Certificates(tmp_path / "pki"), Certificates(tmp_path / "others")
    certificate, key = map(str, pki.client("sync"))
    with served(StrictRegistry(), certificates=pki, client_certificates=True) as url:
        base = RegistryConfig(url=url, tls=TlsConfig(ca=str(pki.ca), certificate=certificate, key=key))
        async with Registry(SOURCE, base) as client:
            assert await client.subjects() == []
        for tls in (replace(base.tls, ca=str(others.ca)), replace(base.tls, certificate="", key=""), TlsConfig()):
            async with Registry(SOURCE, replace(base, tls=tls)) as client:
                with pytest.raises(RegistryUnreachable) as lost:
                    await client.subjects()
                assert isinstance(as_control_error(lost.value), SourceUnreachable)
    with pytest.raises(ValueError, match=r"schema\.source\.registry\.ssl\.ca\.location: cannot read"):
        Registry(SOURCE, replace(base, prefix=SOURCE.prefix, tls=TlsConfig(ca=str(tmp_path / "none"))))


async def test_answers_of_no_use(monkeypatch: pytest.MonkeyPatch):
    registry = StrictRegistry()
    registry.add("a", {"type": "string"})
    with served(registry) as url:
        async with opened(url + "/subjects") as client:  # not where a registry is
            with pytest.raises(RegistryRefused, match="Operation not supported"):
                await client.subjects()
        async with opened(url) as client:
            monkeypatch.setattr(model, "MAX_SUBJECT", 0)
            with pytest.raises(RegistryUnreachable, match="not an answer of a schema registry: a list of subjects"):
                await client.subjects()
            monkeypatch.setattr(registry_module, "MAX_ANSWER", 3)
            with pytest.raises(RegistryUnreachable, match="an answer of more than 3 bytes"):
                await client.subjects()
    async with opened(url) as client:
        with pytest.raises(RegistryUnreachable) as lost:
            await client.subjects()
    assert task_code(lost.value) is TaskErrorCode.BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR


@pytest.mark.parametrize("code", ["1e999", "-Infinity", "NaN", "[]", '"x"', "null", "9" * 5000])
def test_a_refusal_that_makes_no_sense_is_one_all_the_same(code: str) -> None:
    error = opened("http://localhost")._refusal(422, "/subjects", f'{{"error_code": {code}, "message": 7}}'.encode())
    assert isinstance(error, RegistryRefused)
    assert (error.status, error.code) == (422, 0)


def test_plain_http_takes_no_certificates(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ssl, "create_default_context", lambda *given: pytest.fail("the system's CAs were read"))
    assert opened("http://localhost").url == "http://localhost"
