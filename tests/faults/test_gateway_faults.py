"""The gateway itself dies and comes back."""

from __future__ import annotations

from tests.support.gateways.migration import Migration


def test_kill_and_restart_in_mid_produce(migration: Migration) -> None:
    with migration.writer() as writer:
        for _ in range(3):
            writer.wait_for_acks(500)
            migration.gateway.kill()
            migration.gateway.start()
        writer.wait_for_acks(500)
    migration.assert_level(writer)


def test_stop_and_restart_in_mid_produce(migration: Migration) -> None:
    with migration.writer() as writer:
        writer.wait_for_acks(500)
        assert migration.gateway.stop() == 0
        migration.gateway.start()
        writer.wait_for_acks(500)
    migration.assert_level(writer)
