"""Room for so many, in all and of one address."""

from __future__ import annotations

from gateway.transport.listening import Slots


def test_of_one_address_and_in_all() -> None:
    slots = Slots(3, 2)
    assert [slots.take("10.0.0.1") for _ in range(3)] == [True, True, False]
    assert slots.take("10.0.0.2")
    assert not slots.take("10.0.0.3")
    slots.release("10.0.0.1")
    assert slots.take("10.0.0.3")


def test_a_network_of_version_6_is_one_address() -> None:
    slots = Slots(10, 1)
    assert slots.take("2001:db8::1")
    assert not slots.take("2001:db8::ffff%eth0")
    assert slots.take("2001:db8:0:1::1")
    assert slots.take("::ffff:10.0.0.1")
    assert not slots.take("10.0.0.1")
    assert slots.take("")
    assert not slots.take("")


def test_nothing_is_kept_of_who_has_gone() -> None:
    slots = Slots(1, 1)
    for number in range(100):
        assert slots.take(f"10.0.0.{number}")
        slots.release(f"10.0.0.{number}")
    assert not slots._taken
