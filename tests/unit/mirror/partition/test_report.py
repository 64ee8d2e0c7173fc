import pytest

from gateway.mirror.partition.report import BypassMeter, RateMeter


def test_rate_over_five_seconds() -> None:
    meter = RateMeter()
    assert meter.per_second() == 0.0
    for second in range(11):
        meter.sample(float(second), second * 100)
    assert meter.per_second() == pytest.approx(100.0)
    for second in range(11, 18):
        meter.sample(float(second), 1000)
    assert meter.per_second() == 0.0


def sampled(*ends: int) -> BypassMeter:
    """A meter that saw these source ends, a second apart, and had read all of it."""
    meter = BypassMeter()
    for second, end in enumerate(ends):
        meter.sample(end, end, 0, float(second))
    return meter


def test_the_backlog_at_the_start_does_not_count() -> None:
    assert sampled(1_000_000, 1_000_000).last_minute(10.0) == 0


def test_growth_that_nobody_forwarded() -> None:
    assert sampled(1000, 1010, 1030).last_minute(10.0) == 30


@pytest.mark.parametrize("order", ["before", "between", "after"])
def test_forwarded_records_do_not_count_whenever_they_are_told(order: str) -> None:
    meter = BypassMeter()
    meter.sample(1000, 1000, 0, 0.0)
    if order == "before":
        meter.forwarded(1000, 10)
    meter.sample(1015, 1015, 0, 1.0)
    if order == "between":
        meter.forwarded(1000, 10)
    meter.sample(1020, 1020, 0, 2.0)
    if order == "after":
        meter.forwarded(1000, 10)
    assert meter.last_minute(10.0) == 10


def test_records_of_gateway_issued_producers_do_not_count() -> None:
    meter = BypassMeter()
    meter.sample(1000, 1000, 0, 0.0)
    meter.sample(1020, 1020, 15, 1.0)
    assert meter.last_minute(10.0) == 5


def test_never_negative() -> None:
    meter = sampled(0, 10)
    meter.forwarded(0, 500)
    assert meter.last_minute(10.0) == 0


def test_only_the_last_minute_and_not_the_last_moment() -> None:
    meter = sampled(0, 10)
    assert meter.last_minute(1.5) == 0  # the forwarder may yet speak
    assert meter.last_minute(2.5) == 10
    meter.sample(10, 10, 0, 62.5)
    assert meter.last_minute(62.5) == 0


def test_what_was_forwarded_before_the_meter_began() -> None:
    meter = BypassMeter()
    meter.forwarded(0, 10)
    meter.sample(10, 10, 0, 0.0)
    meter.forwarded(5, 5)  # below everything known
    meter.sample(20, 20, 0, 1.0)
    assert meter.last_minute(10.0) == 10
