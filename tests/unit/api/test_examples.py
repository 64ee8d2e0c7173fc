"""Each body of a request has an example, and each example is such a body."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from gateway.api.examples import EXAMPLES, SERVERS
from tests.support.control.shared_app import shared_app


def described() -> dict[str, Any]:
    found: dict[str, Any] = shared_app(None, None, fleet=dict).openapi()
    return found


def models() -> Iterator[type[BaseModel]]:
    """All that there are."""
    waiting: list[type[BaseModel]] = [BaseModel]
    while waiting:
        found = waiting.pop().__subclasses__()
        yield from found
        waiting += found


def bodies() -> set[str]:
    found: set[str] = set()
    for operations in described()["paths"].values():
        for operation in operations.values():
            found |= set(re.findall(r"#/components/schemas/(\w+)", str(operation.get("requestBody", ""))))
    return found


def test_each_body_has_one() -> None:
    assert bodies() == set(EXAMPLES)
    schemas = described()["components"]["schemas"]
    assert [name for name in EXAMPLES if schemas[name]["examples"] != [EXAMPLES[name]]] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_taken(name: str) -> None:
    bodies()  # imports all of them
    found = [one for one in models() if one.__name__ == name and one.__module__.startswith("gateway.")]
    assert found
    for model in found:
        model.model_validate(EXAMPLES[name])


def test_where_it_is_served() -> None:
    assert described()["servers"] == list(SERVERS)
