"""A broker's listener port is the one that its record says, whatever was opened before that was known."""

from __future__ import annotations

import asyncio
import random
import socket
from types import SimpleNamespace
from typing import Any, cast

from gateway.cutover.write_pause.rules.routing import RoutingTable
from gateway.proxy.session.context import Sessions
from gateway.proxy.session.listener import Listener
from gateway.proxy.session.listeners import Listeners
from tests.support.proxy.limits import limits_with
from tests.support.waiting import wait_until_async


def free_ports(count: int) -> list[int]:
    socks = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in socks]
    for sock in socks:
        sock.close()
    return ports


async def test_ports_that_a_record_gives_to_others_are_moved() -> None:
    """Two workers saw two brokers in different order: the ports of this one are the wrong way round."""
    loop = asyncio.get_running_loop()
    bootstrap, one, two = free_ports(3)
    ports = {1: two, 2: one}
    sessions = Sessions(
        routing=RoutingTable(), clock=loop.time, loop=loop, max_request_bytes=1 << 20, limits=limits_with()
    )
    listener = Listener(
        host="127.0.0.1", advertised_host="", bootstrap_port=bootstrap, port_of=lambda node: ports[node], proxies=None
    )
    brokers = {2: ("b", 2, None), 1: ("a", 1, None)}
    view = SimpleNamespace(brokers=brokers, topics={})
    target = cast("Any", SimpleNamespace(view=view, available=True, config=SimpleNamespace(uses_sasl=True)))
    listeners = Listeners(
        sessions, target=target, listeners=[listener], target_tls=None, idle_timeout_s=600, rng=random.Random(1)
    )
    await listeners.start()
    try:
        ports.update({1: one, 2: two})
        listeners.ports_changed()
        await wait_until_async(lambda: not listeners.closed(), 10.0, what="both to be open again")
        assert listeners.ports() == {1: one, 2: two}
        opened = {key[1]: made for key, made in listeners._servers.items()}
        assert set(opened) == {None, 1, 2}
    finally:
        await listeners.close(0)
