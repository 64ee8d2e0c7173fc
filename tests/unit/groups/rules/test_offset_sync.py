"""Offset sync: never beyond the mirror, never a rewind, never expired."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.groups.rules.offset_sync import SyncPlan, Wanted, plan_sync, refresh_after_s

KEY = ("orders", 0)
OTHER = ("orders", 1)


def test_what_is_new_or_has_moved_on_is_committed():
    wanted = {KEY: Wanted(10, 0, "m"), OTHER: Wanted(7, 3)}

    assert plan_sync(wanted, {OTHER: (5, "")}) == SyncPlan({KEY: (10, "m"), OTHER: (7, "")}, (), 3)


def test_what_is_there_already_is_left_alone():
    assert plan_sync({KEY: Wanted(10, 0, "m")}, {KEY: (10, "m")}) == SyncPlan()


def test_another_metadata_string_is_a_change():
    assert plan_sync({KEY: Wanted(10, 0, "b")}, {KEY: (10, "a")}).commit == {KEY: (10, "b")}


def test_a_lower_offset_is_held_back():
    assert plan_sync({KEY: Wanted(4, 0)}, {KEY: (10, "m")}) == SyncPlan({}, (KEY,))


def test_a_refresh_commits_all_again_as_it_is():
    wanted = {KEY: Wanted(10, 0), OTHER: Wanted(4, 0)}

    assert plan_sync(wanted, {KEY: (10, ""), OTHER: (9, "x")}, refresh=True).commit == {KEY: (10, ""), OTHER: (9, "x")}


partitions = st.tuples(st.just("t"), st.integers(0, 3))
values = st.tuples(st.integers(0, 20), st.sampled_from(["", "m"]))
wants = st.builds(Wanted, st.integers(0, 20), st.integers(0, 5), st.sampled_from(["", "m"]))


@given(st.lists(st.tuples(st.dictionaries(partitions, wants), st.booleans())), st.dictionaries(partitions, values))
def test_no_history_of_syncs_ever_lowers_an_offset(history, held):
    for wanted, refresh in history:
        plan = plan_sync(wanted, held, refresh=refresh)
        after = {**held, **plan.commit}
        for key, (offset, _) in held.items():
            assert after[key][0] >= offset
        for key, one in wanted.items():
            assert after[key][0] == max(one.target, held.get(key, (0, ""))[0])
        assert set(plan.commit) <= set(wanted)
        held = after


@pytest.mark.parametrize(("minutes", "seconds"), [(1, 15.0), (60, 900.0), (10_080, 3600.0), (None, 3600.0)])
def test_a_commit_is_repeated_long_before_it_expires(minutes, seconds):
    assert refresh_after_s(minutes) == seconds
