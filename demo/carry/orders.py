"""The records of the demo: what an order looks like, by which schemas it is written, and how one is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from demo.carry.avro import Schema, decode, encode, framed, unframed
from demo.carry.settings import TOPIC
from demo.records import RecordId

KEYS: Final = f"{TOPIC}-key"
VALUES: Final = f"{TOPIC}-value"
KEY: Final[Schema] = "string"


def _order(*more: Schema) -> Schema:
    fields = [("producer", "string"), ("number", "long"), ("customer", "string"), ("price", "double")]
    named = [{"name": name, "type": kind} for name, kind in fields]
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": [*named, *more]}


FIRST: Final = _order()
SECOND: Final = _order({"name": "currency", "type": "string", "default": "EUR"})
THIRD: Final = _order(
    {"name": "currency", "type": "string", "default": "EUR"}, {"name": "voucher", "type": "string", "default": ""}
)
VERSIONS: Final = (FIRST, SECOND, THIRD)
"""Of VALUES, in the order in which they are registered: before the migration, during it, and after it."""


def text_of(schema: Schema) -> str:
    """As a registry takes it."""
    return json.dumps(schema)


def customer_of(number: int) -> str:
    """Whose order it is; the record's key, too."""
    return f"customer-{number % 997}"


def key_of(schema_id: int, number: int) -> bytes:
    """A record's key."""
    return framed(schema_id, encode(KEY, customer_of(number)))


def value_of(schema_id: int, schema: Schema, producer: str, number: int) -> bytes:
    """A record's value."""
    order = {
        "producer": producer,
        "number": number,
        "customer": customer_of(number),
        "price": number % 10_000 / 100,
        "currency": "CHF",
        "voucher": "",
    }
    return framed(schema_id, encode(schema, order))


class Orders:
    """Reads records, with the schemas of one registry. `ids`: those that values named, each with its schema."""

    def __init__(self, schema_of: Callable[[int], Schema]) -> None:
        self.ids: dict[int, Schema] = {}
        self._schema_of = schema_of

    def parse(self, value: bytes | None) -> RecordId:
        """The id of a record.

        Raises:
            ValueError: it is no order, or the registry does not know its schema.
        """
        schema_id, payload = unframed(value)
        if schema_id not in self.ids:
            self.ids[schema_id] = self._schema_of(schema_id)
        order: dict[str, Any] = decode(self.ids[schema_id], payload)
        if order["customer"] != customer_of(order["number"]):
            raise ValueError(f"not an order of the demo: {order}")
        return RecordId(order["producer"], order["number"])
