"""The way to the source breaks while producers write through the gateway."""

from __future__ import annotations

import pytest

from tests.support.gateways.migration import Migration


@pytest.mark.parametrize("times", [1, 3])
def test_the_source_is_cut_in_mid_produce(migration: Migration, times: int) -> None:
    with migration.writer() as writer:
        writer.wait_for_acks(500)
        for _ in range(times):
            with migration.source_proxy.being_cut():
                before = writer.acks
                writer.wait_for_sends(500)
                assert writer.acks < before + 100, "the cut did not hit the writes"
            writer.wait_for_acks(1000)
    migration.assert_level(writer)


def test_answers_of_the_source_are_lost_then_the_connection(migration: Migration) -> None:
    """The source appends, and nobody hears of it: the outcome of what is in flight is unknown."""
    with migration.writer() as writer:
        writer.wait_for_acks(500)
        migration.source_proxy.add("timeout", "downstream", timeout=0)
        writer.wait_for_sends(500)
        migration.source_proxy.cut()
        migration.source_proxy.mend()
        writer.wait_for_acks(1000)
    migration.assert_level(writer)


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_connections_to_the_source_break_in_the_middle_of_a_frame(migration: Migration, stream: str) -> None:
    with migration.writer(size=1000) as writer:
        writer.wait_for_acks(500)
        migration.source_proxy.add("limit_data", stream, bytes=50_001)  # type: ignore[arg-type]
        writer.wait_for_sends(1000)
        migration.source_proxy.mend()
        writer.wait_for_acks(1000)
    migration.assert_level(writer)


def test_a_slow_source_slows_and_nothing_more(migration: Migration) -> None:
    with migration.writer() as writer:
        writer.wait_for_acks(500)
        migration.source_proxy.add("latency", "downstream", latency=150, jitter=100)
        migration.source_proxy.add("bandwidth", "upstream", rate=100)
        writer.wait_for_acks(1000)
        migration.source_proxy.mend()
        writer.wait_for_acks(1000)
    migration.assert_level(writer)
