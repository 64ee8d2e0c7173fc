"""How far a group is behind, and what counts for nothing."""

from __future__ import annotations

from gateway.groups.rules.lag import lag_by_topic


def test_partitions_are_summed_by_topic():
    committed = {("t", 0): 3, ("t", 1): 10, ("u", 0): 0}
    assert lag_by_topic(committed, {"t": [5, 10], "u": [7]}) == {"t": 2, "u": 7}


def test_a_commit_beyond_the_end_is_no_lag():
    assert lag_by_topic({("t", 0): 9}, {"t": [5]}) == {"t": 0}


def test_what_is_not_known_counts_for_nothing():
    committed = {("t", 0): -1, ("t", 1): 4, ("u", 0): 3, ("v", 2): 1, ("w", 0): 1}
    assert lag_by_topic(committed, {"t": [5, None], "u": [None], "v": [1]}) == {}
