"""What an event says besides its line, so that a page makes one line of one action."""

from __future__ import annotations

from dataclasses import replace

from gateway.console.rules.events import of_group, of_journal, of_mirror
from gateway.state.migration_records import JournalEntry, MigrationRecord
from gateway.state.records import GroupRecord, GroupState, MirrorState
from tests.support.control.mirror_records import changed, one_partition


def test_a_state_on_the_way_is_passing_and_says_what_several_do() -> None:
    active = one_partition("orders", MirrorState.ACTIVE, 0)
    pending, stopped = (changed(active, state=each) for each in (MirrorState.PENDING_STOPPED, MirrorState.STOPPED))
    (begun,), (done,) = of_mirror(active, pending), of_mirror(pending, stopped)
    assert (begun.passing, done.passing) == (True, False)
    assert (done.link, done.names, done.words) == ("l", ("orders",), "are written on the target")


def test_groups_likewise() -> None:
    group = GroupRecord(link="l", group="g")
    (waits,) = of_group(None, group)
    (passes,) = of_group(group, replace(group, state=GroupState.PENDING_PROMOTED))
    assert (waits.words, waits.passing, passes.passing) == ("wait at its gate", False, True)


def test_a_step_of_a_migration_names_its_application_and_objects() -> None:
    record = MigrationRecord(name="m", link="l", file="{}")
    (told,) = of_journal(record, record.noted(JournalEntry(2, "PROMOTE_TOPICS", "shop", ("a", "b"))))
    assert (told.link, told.application, told.names, told.words) == ("l", "shop", ("a", "b"), "")
