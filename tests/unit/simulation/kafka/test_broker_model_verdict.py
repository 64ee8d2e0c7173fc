"""The one line that `make test-broker-model` ends with."""

from tests.broker_model.__main__ import Sums


def test_the_verdict_counts_all_versions() -> None:
    sums = Sums(sequences=100, requests=9000, differences=0)
    assert sums.passed
    assert sums.verdict == "broker-model: PASS sequences=100 requests=9000 differences=0"


def test_a_difference_fails() -> None:
    sums = Sums(sequences=100, requests=9000, differences=1)
    assert not sums.passed
    assert sums.verdict == "broker-model: FAIL sequences=100 requests=9000 differences=1"


def test_a_run_that_compared_nothing_does_not_pass() -> None:
    assert Sums(sequences=0, requests=0).verdict == "broker-model: FAIL sequences=0 requests=0 differences=0"
