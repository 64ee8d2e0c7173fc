"""The demo's Avro beside the examples of Avro's specification, and its records there and back."""

from __future__ import annotations

import pytest

from demo.carry.avro import decode, encode, framed, unframed
from demo.carry.clients.common import ClientConfig, read_config, write_config
from demo.carry.orders import VERSIONS, Orders, key_of, value_of
from demo.records import RecordId

TEST = {"type": "record", "name": "test", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}


@pytest.mark.parametrize(
    ("schema", "value", "data"),
    [
        ("long", 0, "00"),
        ("long", -1, "01"),
        ("long", 1, "02"),
        ("long", -64, "7f"),
        ("long", 64, "80 01"),
        ("string", "foo", "06 66 6f 6f"),
        (TEST, {"a": 27, "b": "foo"}, "36 06 66 6f 6f"),
        ("double", 1.5, "00 00 00 00 00 00 f8 3f"),
    ],
)
def test_examples_of_the_specification(schema: object, value: object, data: str) -> None:
    assert encode(schema, value) == bytes.fromhex(data)
    assert decode(schema, bytes.fromhex(data)) == value


@pytest.mark.parametrize("number", [2**40, -(2**40), 2**63 - 1, -(2**63)])
def test_large_numbers(number: int) -> None:
    assert decode("long", encode("long", number)) == number


@pytest.mark.parametrize(
    ("schema", "data"), [("long", "80"), ("string", "06 66"), ("string", "01"), ("double", "00"), ("long", "00 00")]
)
def test_what_does_not_fit_is_refused(schema: object, data: str) -> None:
    with pytest.raises(ValueError, match="too"):
        decode(schema, bytes.fromhex(data))


def test_other_types_are_refused() -> None:
    with pytest.raises(ValueError, match="not a type"):
        encode("bytes", b"")
    with pytest.raises(ValueError, match="not a type"):
        decode({"type": "array", "items": "long"}, b"")


def test_the_frame_is_confluents() -> None:
    assert framed(258, b"x") == b"\x00\x00\x00\x01\x02x"
    assert unframed(b"\x00\x00\x00\x01\x02x") == (258, b"x")
    for data in (None, b"", b"\x00\x00\x00\x01", b"\x01\x00\x00\x01\x02x"):
        with pytest.raises(ValueError, match="no frame"):
            unframed(data)


@pytest.mark.parametrize("version", range(len(VERSIONS)))
def test_an_order_is_read_with_the_schema_that_it_names(version: int) -> None:
    orders = Orders({7: VERSIONS[version]}.__getitem__)
    assert orders.parse(value_of(7, VERSIONS[version], "shop", 1234)) == RecordId("shop", 1234)
    assert orders.ids == {7: VERSIONS[version]}
    other = Orders({7: VERSIONS[(version + 1) % len(VERSIONS)]}.__getitem__)
    with pytest.raises(ValueError, match="too"):
        other.parse(value_of(7, VERSIONS[version], "shop", 1234))


def test_a_key_names_its_schema() -> None:
    assert unframed(key_of(3, 5)) == (3, b"\x14customer-5")


def test_a_clients_file_is_its_own(tmp_path) -> None:
    config = ClientConfig({"sasl.password": "p"}, "http://registry.example", 1)
    for _ in range(2):
        write_config(tmp_path / "client.json", config)
    assert read_config(tmp_path / "client.json") == config
    assert (tmp_path / "client.json").stat().st_mode & 0o077 == 0
