"""Group filters: which names pass, and what is no filter at all."""

from __future__ import annotations

import json

import pytest

from gateway.state.name_filters import ALL_NAMES, parse_filters


def filters(*items):
    keys = ("name", "patternType", "filterType")
    return parse_filters(
        json.dumps({"groupFilters": [dict(zip(keys, item, strict=True)) for item in items]}), "groupFilters"
    )


def test_all_names():
    assert filters(("*", "LITERAL", "INCLUDE")) == ALL_NAMES
    assert ALL_NAMES.passes("any")


def test_nothing_passes_that_no_filter_includes():
    assert not filters().passes("g")
    assert not filters(("g", "LITERAL", "EXCLUDE")).passes("g")
    assert not filters(("g", "LITERAL", "INCLUDE")).passes("g2")


def test_an_exclude_overrides_whatever_the_order():
    first = (("foo", "PREFIXED", "INCLUDE"), ("foo.bar", "PREFIXED", "EXCLUDE"))

    for found in (filters(*first), filters(*reversed(first))):
        assert [found.passes(name) for name in ("foo", "foo.fighters", "foo.bar.fighters", "bar")] == [
            True,
            True,
            False,
            False,
        ]


def test_a_prefixed_star_is_a_star():
    found = filters(("*", "PREFIXED", "INCLUDE"))

    assert found.passes("*x")
    assert not found.passes("x")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[]", "one array"),
        ('{"topicFilters": []}', "one array"),
        ('{"groupFilters": [{"name": "a"}]}', r"groupFilters\[0\]"),
        ('{"groupFilters": [{"name": "", "patternType": "LITERAL", "filterType": "INCLUDE"}]}', "non-empty"),
        ('{"groupFilters": [{"name": "a", "patternType": "REGEX", "filterType": "INCLUDE"}]}', "REGEX"),
        ('{"groupFilters": [{"name": "a", "patternType": "LITERAL", "filterType": "include"}]}', "include"),
    ],
)
def test_mistakes(text, says):
    with pytest.raises(ValueError, match=says):
        parse_filters(text, "groupFilters")
