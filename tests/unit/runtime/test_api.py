"""The HTTP server of one gateway: what no test over the wire can wait for."""

import httpx

from gateway.runtime.api import IDLE_S


def test_a_client_gives_up_an_idle_connection_before_the_gateway_does() -> None:
    theirs = httpx.Limits().keepalive_expiry
    assert theirs is not None
    assert theirs < IDLE_S
