"""Something breaks while a topic is promoted under load. It may end in STOPPED or be taken back, never in between."""

from __future__ import annotations

import pytest

from tests.support.clients.writer import Writer
from tests.support.gateways.migration import Migration
from tests.support.waiting import wait_until


def finish(migration: Migration, writer: Writer) -> None:
    """Wait for the end of the promote; if it was taken back, writes go on and a second try succeeds."""
    if wait_until(lambda: come_to_rest(migration), 90.0, what="the end of the promote") != "STOPPED":
        writer.wait_for_acks(500)
        migration.gateway.promote(migration.link, migration.topic)
        wait_until(lambda: come_to_rest(migration) == "STOPPED", 60.0, what="STOPPED at the second try")
    writer.wait_for_acks(500)


def come_to_rest(migration: Migration) -> str:
    """The state once no promote is under way; empty before."""
    state = migration.state()
    return state if state in ("ACTIVE", "STOPPED", "FAILED") else ""


@pytest.mark.parametrize("latency_ms", [0, 200], ids=["after the write pause", "before the write pause"])
def test_the_source_is_cut_in_mid_promote(migration: Migration, latency_ms: int) -> None:
    """It must not cut over while the source may still hold records that nobody has seen."""
    with migration.writer() as writer:
        writer.wait_for_acks(500)
        if latency_ms:
            migration.source_proxy.add("latency", "downstream", latency=latency_ms)
        migration.gateway.promote(migration.link, migration.topic)
        with migration.source_proxy.being_cut():
            writer.wait_for_sends(250)
        finish(migration, writer)
    migration.assert_promoted(writer)


def test_answers_of_the_source_are_lost_in_mid_promote(migration: Migration) -> None:
    """What is in flight under the write pause has an unknown outcome: the write pause stays until the source has
    told."""
    with migration.writer() as writer:
        writer.wait_for_acks(500)
        migration.source_proxy.add("latency", "downstream", latency=200)
        migration.gateway.promote(migration.link, migration.topic)
        migration.source_proxy.add("timeout", "downstream", timeout=0)
        writer.wait_for_sends(250)
        migration.source_proxy.cut()
        migration.source_proxy.mend()
        finish(migration, writer)
    migration.assert_promoted(writer)


def test_the_target_is_cut_in_mid_promote(migration: Migration) -> None:
    with migration.writer() as writer:
        writer.wait_for_acks(500)
        migration.target_proxy.add("latency", "downstream", latency=100)
        migration.gateway.promote(migration.link, migration.topic)
        with migration.target_proxy.being_cut():
            writer.wait_for_sends(250)
        finish(migration, writer)
    migration.assert_promoted(writer)


@pytest.mark.parametrize("migration", [{"promote": {"grace_ms": 2500}}], indirect=True)
def test_the_gateway_is_killed_under_the_write_pause(migration: Migration) -> None:
    """The long grace keeps the write pause closed until the kill; the next process takes the write pause anew."""
    with migration.writer() as writer:
        writer.wait_for_acks(500)
        migration.gateway.promote(migration.link, migration.topic)
        wait_until(lambda: migration.gateway.held(migration.topic) > 0, 30.0, what="writes held by the write pause")
        migration.gateway.kill()
        migration.gateway.start()
        finish(migration, writer)
    migration.assert_promoted(writer)


def test_the_source_dies_for_good_after_the_promote(migration: Migration) -> None:
    with migration.writer() as writer:
        writer.wait_for_acks(500)
        migration.gateway.promote(migration.link, migration.topic)
        wait_until(lambda: migration.state() == "STOPPED", 60.0, what="STOPPED")
        with migration.source_proxy.being_cut():
            writer.wait_for_acks(2000, 15.0)
    migration.assert_promoted(writer)
