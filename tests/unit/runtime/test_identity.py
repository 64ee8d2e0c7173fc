"""A listener with `identity: token` before a target that makes no tokens is told at the start, as one line."""

from __future__ import annotations

from typing import Any, cast

import pytest

from gateway.config.settings import Settings
from gateway.kafka.access.delegation_tokens import TokenRefused
from gateway.runtime import identity

TARGET = {
    "bootstrap.servers": "a:1",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "a",
    "sasl.password": "b",
}
MUTUAL: Any = {
    "bootstrap_port": 9392,
    "base_port": 9400,
    "identity": "token",
    "tls": {"certificate": "a", "key": "b", "client_ca": "c", "client_auth": "required"},
}


async def test_a_target_that_makes_no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(_: object) -> None:
        raise TokenRefused("the cluster is too old")

    monkeypatch.setattr(identity, "require_tokens", refused)
    target = cast("Any", None)
    await identity.require_token_listeners(Settings(target=TARGET), target)
    settings = Settings(target=TARGET, listeners={"public": MUTUAL})
    with pytest.raises(ValueError, match=r"^listeners\.public\.identity: token: the target: the cluster is too old$"):
        await identity.require_token_listeners(settings, target)
