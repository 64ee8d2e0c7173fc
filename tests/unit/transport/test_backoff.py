from gateway.transport.backoff import Backoff


def test_waits_double_up_to_the_longest() -> None:
    backoff = Backoff(0.1, 1.0, rng=lambda: 0.5)

    assert [round(backoff.next(), 3) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_jitter_is_a_fifth_either_way() -> None:
    assert Backoff(1.0, 1.0, rng=lambda: 0.0).next() == 0.8
    assert round(Backoff(1.0, 1.0, rng=lambda: 0.999999).next(), 3) == 1.2


def test_reset_begins_again() -> None:
    backoff = Backoff(0.1, 1.0, rng=lambda: 0.5)
    backoff.next()
    backoff.next()
    backoff.reset()

    assert backoff.next() == 0.1


def test_a_long_outage_does_not_overflow() -> None:
    backoff = Backoff(0.1, 1.0, rng=lambda: 0.5)
    backoff.failures = 100_000

    assert backoff.next() == 1.0
