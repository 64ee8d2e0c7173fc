"""Random histories of small batches before a replicated target: whatever becomes of leaders and replicas, what was told
to be on the target is there, and each record is what and where it was on the source."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.mirror.replicated_story import Story

seeds = st.integers(min_value=0, max_value=2**32)


@given(seeds, st.integers(1, 2), st.sampled_from([0.0, 0.1, 0.3]))
@settings(max_examples=60, deadline=None)
def test_leaders_lost_between_append_and_replication(seed: int, engines: int, fault_rate: float) -> None:
    Story(seed, engines=engines, fault_rate=fault_rate).run()


@given(seeds, st.sampled_from([0.0, 0.2]))
@settings(max_examples=25, deadline=None)
def test_a_target_that_finds_merged_batches_too_large(seed: int, fault_rate: float) -> None:
    Story(seed, fault_rate=fault_rate, most_bytes=700).run()


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_engines_that_are_killed_go_on_where_the_log_ends(seed: int) -> None:
    Story(seed, fault_rate=0.15, kills=4).run()


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_what_an_unclean_election_loses_is_appended_once_more(seed: int) -> None:
    Story(seed, fault_rate=0.3, unclean=True).run()


def test_stories_merge() -> None:
    merged = [Story(seed, fault_rate=0.1).run() for seed in range(8)]
    assert sum(count > 20 for count in merged) >= 6, merged
