"""The members of the fleet that one gateway has."""

from __future__ import annotations

import pytest

from gateway.fleet.rules.worker_names import gateway_of, worker_name


@pytest.mark.parametrize("gateway", ["gw", "10.0.0.7:9292", "box:9292", "a b@c"])
def test_a_worker_is_its_gateways(gateway: str) -> None:
    names = [worker_name(gateway, index) for index in range(12)]
    assert len(set(names)) == 12
    assert names[0] == gateway
    assert {gateway_of(name) for name in names} == {gateway}


def test_one_that_another_process_has_succeeded_stands_for_itself() -> None:
    assert gateway_of("gw#2@000017-ab12") == "gw#2@000017-ab12"
