"""What a dry run and a scrape tell, against what there was."""

from __future__ import annotations

from typing import Any

from tests.simulation.judge.asked import Ends, wrong_failover, wrong_scrape


def said(count: int, *, exact: bool = True) -> dict[str, Any]:
    return {"records_not_mirrored": {"0": count}, "records_not_mirrored_exact": exact}


def test_a_failovers_number_is_one_of_those_that_there_were() -> None:
    before, after = {0: Ends(100, 105, 80, 90)}, {0: Ends(120, 130, 95, 96)}
    assert not [what for count in (4, 50) for what in wrong_failover(said(count), before, after)]
    for count in (3, 51):
        (what,) = wrong_failover(said(count), before, after)
        assert what == f"a failover is said to leave {count} records of partition 0, and it is 4 to 50"


def test_what_is_not_exact_may_be_more_and_not_less() -> None:
    before = after = {0: Ends(100, 100, 90, 90)}
    assert not list(wrong_failover(said(0, exact=False), before, after))
    assert not list(wrong_failover(said(-1), before, after))
    assert list(wrong_failover(said(11, exact=False), before, after))
    assert list(wrong_failover(said(0), before, after))


def test_metrics_count_what_describe_tells() -> None:
    text = 'lockgate_mirror_records_after_cutover{link="l",topic="a"} 3.0\n'
    assert not list(wrong_scrape(text, "a", 3))
    assert not list(wrong_scrape(text, "b", 0))
    assert list(wrong_scrape(text, "a", 0)) == ["metrics tell of 3.0 records behind its cutover, and describe of 0"]
