"""`mirror_topic_name_pattern`: as an expression says, in little time, and nothing else."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.confluent.name_pattern import NamePattern
from gateway.errors import BadRequest

NAMES = ["orders", "orders.eu", "clicks", "a", "o-1_x"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (".*", NAMES),
        ("orders", ["orders"]),
        ("orders.*", ["orders", "orders.eu"]),
        ("orders.+", ["orders.eu"]),
        (r"orders\.eu|a", ["orders.eu", "a"]),
        (".*s", ["orders", "clicks"]),
        ("o.*r.*s", ["orders"]),
        ("o.*o", []),
        (".", ["a"]),
        ("o-1_x", ["o-1_x"]),
    ],
)
def test_patterns(pattern, found):
    assert NamePattern(pattern).among(NAMES) == found


@pytest.mark.parametrize("pattern", ["", "(a+)+$", "a{9}", "[a-z]*", "a*", "^a", "a\\", "x" * 1001, "ä"])
def test_what_is_not_taken(pattern):
    with pytest.raises(BadRequest, match="mirror_topic_name_pattern"):
        NamePattern(pattern)


_PARTS = st.lists(st.sampled_from(["a", "b", ".", ".*", ".+", r"\.", "|"]), min_size=1, max_size=9)


@given(_PARTS, st.lists(st.text("ab.", max_size=8), max_size=5))
def test_it_means_what_the_expression_means(parts, names):
    text = "".join(parts)
    expression = re.compile(text)
    assert NamePattern(text).among(names) == [name for name in names if expression.fullmatch(name)]


def test_the_worst_pattern_costs_little():
    pattern = NamePattern("a.*" * 330)
    began = time.process_time()
    assert pattern.among(["a" * 248 + "b"] * 100) == []
    assert time.process_time() - began < 5
