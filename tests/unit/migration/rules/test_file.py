"""Migration files: what is taken, what is refused, and their schema.

Names that two migration files both mean.
"""

from __future__ import annotations

from typing import Any

import pytest

from gateway.migration.rules.file import (
    FileError,
    Meant,
    MigrationFile,
    as_text,
    of_text,
    ordered,
    parsed,
    schema,
    shared_name,
)


def document(*applications: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "migration": "m",
        "link": "west",
        "applications": list(applications) or [{"name": "a", "topics": ["t"]}],
        **more,
    }


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"link": "west"}, "migration: is required"),
        (document(colour="red"), "colour: unknown key"),
        (document({"name": "a"}), "neither topics nor groups"),
        (document({"name": "a/b", "topics": ["t"]}), "may hold only"),
        (document({"name": "a", "topics": ["*t*"]}), "one '*' at its end"),
        (document({"name": "a", "topics": ["t"]}, {"name": "b", "topics": ["t"]}), "topic 't' is in the applications"),
        (document({"name": "a", "topics": ["t"]}, {"name": "a", "topics": ["u"]}), "two applications are named 'a'"),
        (document({"name": "a", "topics": ["t"], "after": ["z"]}), "which is not in the file"),
        (document({"name": "a", "topics": ["t"], "after": ["a"]}), "wait for each other: a"),
        (
            document({"name": "a", "topics": ["t"], "windows": [{"from": "22:00", "to": "04:00", "zone": "Mars"}]}),
            "Mars",
        ),
        (document({"name": "a", "topics": ["t"], "until": "soon"}), "applications.0.until"),
        (document({"name": "a", "topics": ["t"], "windows": [{"from": 1320, "to": "04:00"}]}), "in quotes"),
        ("text", "holds a mapping"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(wrong: Any, words: str) -> None:
    with pytest.raises(FileError) as refused:
        parsed(wrong)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_record_of_it_reads_the_same() -> None:
    window = {"days": ["sat"], "from": "22:00", "to": "04:00", "zone": "Europe/Berlin"}
    file = parsed(document({"name": "a", "topics": ["t", "u-*"], "windows": [window], "until": "groups"}))
    assert of_text(as_text(file)) == file
    assert as_text(file) == as_text(of_text(as_text(file)))


def test_the_order_is_that_of_after_else_the_files() -> None:
    file = parsed(
        document(
            {"name": "a", "topics": ["t"], "after": ["c"]},
            {"name": "b", "groups": ["g"]},
            {"name": "c", "groups": ["h"]},
        )
    )
    assert [one.name for one in ordered(file.applications)] == ["b", "c", "a"]


def test_a_star_is_a_beginning() -> None:
    meant = Meant([("orders-*", "a"), ("o*", "b"), ("orders-eu", "c"), ("orders-e*", "d")])
    assert [meant.owner(name) for name in ("orders-eu", "orders-east", "orders", "x")] == ["c", "a", "b", ""]


def test_the_schema_is_strict_and_describes() -> None:
    made = schema()
    assert made["additionalProperties"] is False
    assert made["$defs"]["Application"]["properties"]["topics"]["description"]
    assert made["$defs"]["Window"]["required"] == ["from", "to"]
    assert made["$defs"]["Until"]["enum"] == ["mirrored", "groups", "promoted"]


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
