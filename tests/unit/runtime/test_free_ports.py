"""Ports of brokers are looked at before the fleet hears of a gateway."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.config.settings import Settings
from gateway.runtime.free_ports import require_broker_ports


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def settings(base_port: int, **listener: Any) -> Settings:
    first = {"host": "127.0.0.1", "bootstrap_port": 1, "base_port": base_port, **listener}
    return Settings.model_validate({"target": {"bootstrap.servers": "localhost:1"}, "listener": first})


def test_a_port_that_the_fleet_has_stored_is_named_with_the_option_that_gives_another_one(taken: int) -> None:
    with pytest.raises(ValueError, match="Address already in use") as error:
        require_broker_ports(settings(38093), {1: taken}, {1: taken}, shared=False)
    assert str(error.value) == (
        f"listener.ports: cannot listen on 127.0.0.1:{taken} for broker 1 of the target: Address already in use; "
        f"broker 1 has port {taken} in this fleet (stored), so listener.base_port 38093 is not used: set listener.ports"
    )


def test_a_port_of_its_own_options_names_them(taken: int) -> None:
    for made, option in ((settings(taken), "base_port"), (settings(2, ports={1: taken}), "ports")):
        with pytest.raises(ValueError, match=rf"^listener.{option}: cannot listen on 127.0.0.1:{taken} for broker 1"):
            require_broker_ports(made, {1: taken}, {}, shared=False)


def test_free_ports_are_free_again_and_shared_ones_may_have_a_sibling() -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as sibling:
        port = sibling.getsockname()[1]
        require_broker_ports(settings(port), {1: port}, {}, shared=True)
    for _ in range(2):
        require_broker_ports(settings(port), {1: port}, {}, shared=False)
