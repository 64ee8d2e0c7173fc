"""Views of the state topic: what is remembered of the order in which records were written."""

from gateway.state.records import MirrorRecord, MirrorState
from gateway.state.views import StateViews
from tests.support.control.mirror_records import mirror_record


def _mirror(state: MirrorState) -> MirrorRecord:
    return mirror_record(link="l", source_topic="payments", mirror_topic="payments", mirror_id=1, state=state)


def test_a_mirror_that_changed_in_the_same_reading_is_as_old_as_its_first_record() -> None:
    views = StateViews()
    key = "mirror/l/payments"
    changes = [(key, _mirror(MirrorState.ACTIVE)), (key, _mirror(MirrorState.PENDING_STOPPED))]
    views.apply(changes, 9, [4, 9])
    assert views.mirrors_grown_at == 4
    assert views.changed_at(key) == 9
    assert views.applied == 9
