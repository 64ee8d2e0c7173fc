"""TLS handshakes of strangers: silence is given none, a flood of one address is refused, their number is bounded."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from gateway.proxy.rules import handshakes
from gateway.transport.listening import handshake_cost
from tests.support.gateways.listening import is_closed, listening
from tests.support.identities.self_signed import self_signed
from tests.support.proxy.limits import limits_with
from tests.support.waiting import wait_until_async


@pytest.fixture
def served(tmp_path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(tmp_path, "gateway"))
    return context


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def hello() -> bytes:
    """What a client says first."""
    said = ssl.MemoryBIO()
    client = trusting().wrap_bio(ssl.MemoryBIO(), said)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return said.read()


async def test_no_handshake_is_begun_with_who_says_nothing(
    unused_port: Callable[[], int], served: ssl.SSLContext
) -> None:
    port = unused_port()
    async with listening(port, tls=served, limits=limits_with(login_timeout_s=0.5)) as sessions:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert sessions.handshakes.under_way == 0
        assert await is_closed(reader)  # after the time of a login
        assert not sessions.open
        writer.close()


async def test_a_client_comes_through(unused_port: Callable[[], int], served: ssl.SSLContext) -> None:
    port = unused_port()
    async with listening(port, tls=served) as sessions:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
        await wait_until_async(lambda: len(sessions.open) == 1)
        assert sessions.handshakes.under_way == 0
        writer.close()
        await wait_until_async(lambda: not sessions.open)
        assert sessions.admission._open == 0


async def test_a_flood_of_an_address_is_refused_before_tls(
    unused_port: Callable[[], int], served: ssl.SSLContext
) -> None:
    port, greeting = unused_port(), hello()
    async with listening(port, tls=served, limits=limits_with(handshakes_per_second=1)) as sessions:
        made = [await asyncio.open_connection("127.0.0.1", port) for _ in range(6)]
        for _, writer in made:
            writer.write(greeting)
        await wait_until_async(lambda: sessions.admission.refused.get("handshakes", 0) >= 3)
        assert sessions.handshakes.under_way <= 3
        for _, writer in made:
            writer.close()
        await wait_until_async(lambda: sessions.admission._open == 0)


async def test_who_ends_none_is_closed_for_one_more(
    unused_port: Callable[[], int], served: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "UNDER_WAY", 3)
    port, greeting = unused_port(), hello()
    async with listening(port, tls=served) as sessions:
        made = []
        for number in range(4):
            made.append(await asyncio.open_connection("127.0.0.1", port))
            made[-1][1].write(greeting)
            await wait_until_async(lambda n=number: sessions.handshakes.under_way == min(n + 1, 3))  # type: ignore[misc]
        async with asyncio.timeout(10):
            await made[0][0].read(1 << 20)  # what the server said
            assert await is_closed(made[0][0])
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
        await wait_until_async(lambda: len(sessions.open) == 1)
        for _, each in (*made, (None, writer)):
            each.close()
        await wait_until_async(lambda: sessions.admission._open == 0)


def test_a_handshake_costs_something(served: ssl.SSLContext) -> None:
    assert 0.000_02 < handshake_cost(served) < 0.5
    ca = trustme.CA()
    ca.configure_trust(served)
    served.verify_mode = ssl.CERT_REQUIRED
    assert handshake_cost(served) > 0.000_02  # a client without a certificate costs nearly as much
