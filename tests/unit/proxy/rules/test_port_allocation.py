"""Listener ports: stable, never shared, never given twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.rules.port_allocation import PortError, allocate


def test_in_order_of_node_id_from_the_base_port():
    assert allocate([1002, 1, 30_000], known={}, base_port=9293, explicit={}) == {1: 9293, 1002: 9294, 30_000: 9295}


def test_known_ports_stay_and_new_brokers_come_behind():
    known = {1: 9295, 7: 9293}

    assert allocate([0, 1, 2], known=known, base_port=9293, explicit={}) == {0: 9294, 1: 9295, 2: 9296}


def test_reserved_ports_are_left_out():
    assert allocate([1, 2], known={}, base_port=9292, explicit={}, reserved={9292, 9294}) == {1: 9293, 2: 9295}


def test_an_explicit_map_is_the_whole_answer():
    assert allocate([1], known={1: 9}, base_port=9293, explicit={1: 19_001, 2: 19_002}) == {1: 19_001}
    with pytest.raises(PortError, match=r"listener\.ports has no port for broker 3"):
        allocate([1, 3], known={}, base_port=9293, explicit={1: 19_001})


def test_no_port_left():
    with pytest.raises(PortError, match=r"listener\.base_port"):
        allocate([1, 2], known={}, base_port=65_535, explicit={})


@given(st.lists(st.sets(st.integers(0, 40), max_size=8), max_size=8), st.sets(st.integers(9293, 9300)))
def test_over_a_life_of_joins_and_leaves_each_node_keeps_one_port(appearances, reserved):
    known: dict[int, int] = {}
    for nodes in appearances:
        ports = allocate(nodes, known=known, base_port=9293, explicit={}, reserved=reserved)
        assert ports.keys() == nodes
        assert all(ports[node] == known[node] for node in nodes & known.keys())
        known |= ports
    assert len(set(known.values())) == len(known)
    assert not reserved & set(known.values())
