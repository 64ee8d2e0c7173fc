"""The way to the target breaks: clients, mirror and state topic all lose it at once."""

from __future__ import annotations

import pytest

from tests.support.gateways.migration import Migration
from tests.support.waiting import wait_until


@pytest.mark.parametrize("times", [1, 3])
def test_the_target_is_cut_in_mid_produce(migration: Migration, times: int) -> None:
    with migration.writer() as writer:
        writer.wait_for_acks(500)
        for _ in range(times):
            with migration.target_proxy.being_cut():
                before = sum(migration.target_ends())
                writer.wait_for_sends(500)
                assert sum(migration.target_ends()) < before + 100, "the cut did not hit the mirror"
            writer.wait_for_acks(1000)
    migration.assert_level(writer)


def test_producers_go_on_while_the_target_is_down(migration: Migration) -> None:
    """Their writes are the source's; the mirror catches up afterwards."""
    with migration.writer() as writer:
        writer.wait_for_acks(500)
        with migration.target_proxy.being_cut():
            before = sum(migration.target_ends())
            writer.wait_for_acks(2000)
            assert sum(migration.target_ends()) < before + 100, "the cut did not hit the mirror"
            wait_until(lambda: "the target does not answer" in migration.waits_for(), 30.0, what="describe to say so")
        writer.wait_for_acks(500)
    assert not writer.failed
    migration.assert_level(writer)


def test_answers_of_the_target_are_lost_then_the_connection(migration: Migration) -> None:
    """The appender does not know what the target has: it must ask, not append again."""
    with migration.writer() as writer:
        writer.wait_for_acks(500)
        migration.target_proxy.add("timeout", "downstream", timeout=0)
        writer.wait_for_sends(500)
        migration.target_proxy.cut()
        migration.target_proxy.mend()
        writer.wait_for_acks(1000)
    migration.assert_level(writer)


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
def test_connections_to_the_target_break_in_the_middle_of_a_frame(migration: Migration, stream: str) -> None:
    with migration.writer(size=1000) as writer:
        writer.wait_for_acks(500)
        migration.target_proxy.add("limit_data", stream, bytes=50_001)  # type: ignore[arg-type]
        writer.wait_for_sends(1000)
        migration.target_proxy.mend()
        writer.wait_for_acks(1000)
    migration.assert_level(writer)


def test_a_slow_target_does_not_slow_producers_of_the_source(migration: Migration) -> None:
    with migration.writer() as writer:
        writer.wait_for_acks(500)
        migration.target_proxy.add("bandwidth", "upstream", rate=50)
        writer.wait_for_acks(2000, 15.0)
        assert sum(migration.target_ends()) < writer.acks - 500, "the target was not slow"
        migration.target_proxy.mend()
    migration.assert_level(writer)
