"""The gateway's own names and topic ids are found in the bytes of a request, and nobody else's."""

from __future__ import annotations

from gateway.proxy.rules.own_names import OwnNames, is_own

STATE, PLAIN = b"S" * 16, b"P" * 16


def test_what_is_ours() -> None:
    assert [name for name in ("__lockgate_state", "__lockgate.fleet", "_lockgate", "my__lockgate") if is_own(name)] == [
        "__lockgate_state",
        "__lockgate.fleet",
    ]


def test_a_name_is_found_wherever_it_stands() -> None:
    names = OwnNames()
    assert names.in_bytes(b"\x00\x10__lockgate_state\x00")
    assert not names.in_bytes(b"\x00\x06orders" + STATE)


def test_ids_of_our_own_topics_are_learnt_and_forgotten() -> None:
    names = OwnNames()
    names.learn({"__lockgate_state": STATE, "__lockgate_map.west": bytes(16), "orders": PLAIN})
    assert names.ids == {STATE}  # a broker without topic ids tells zeros, which every request may have
    assert names.in_bytes(b"..." + STATE)
    assert not names.in_bytes(b"..." + PLAIN + bytes(16))
    names.learn({"orders": PLAIN})
    assert not names.in_bytes(b"..." + STATE)
    assert names.in_bytes(b"__lockgate_state")
