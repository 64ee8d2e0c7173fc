"""Names that two migration files both mean."""

from __future__ import annotations

import pytest

from gateway.migration.rules.file import MigrationFile, parsed
from gateway.migration.rules.overlap import shared_name


def file(*topics: str, groups: tuple[str, ...] = ()) -> MigrationFile:
    one = {"name": "a", "topics": list(topics), "groups": list(groups)}
    return parsed({"migration": "m", "link": "l", "applications": [one]})


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (("orders",), ("payments",), ""),
        (("orders",), ("orders",), "topic 'orders'"),
        (("orders*",), ("orders-eu",), "topic 'orders-eu'"),
        (("orders-eu",), ("orders*",), "topic 'orders-eu'"),
        (("orders*",), ("orders-eu*",), "topic 'orders-eu*'"),
        (("orders-eu*",), ("orders*",), "topic 'orders-eu*'"),
        (("orders-eu*",), ("orders-us*", "orders"), ""),
        (("orders-eu*",), ("orders",), ""),
        (("*",), ("orders",), "topic 'orders'"),
    ],
)
def test_what_both_mean(one: tuple[str, ...], other: tuple[str, ...], shared: str) -> None:
    assert shared_name(file(*one), file(*other)) == shared


def test_groups_are_told_from_topics() -> None:
    assert shared_name(file("a", groups=("b",)), file("b", groups=("c",))) == ""
    assert shared_name(file("a", groups=("b",)), file("c", groups=("b",))) == "group 'b'"
