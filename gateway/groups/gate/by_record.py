"""Keeps the gates of groups true to the records, at the gateway that leads as at those that follow."""

from __future__ import annotations

from gateway.groups.gate.rules.gates import GroupGates, RecordedGate
from gateway.state.codec import key_of
from gateway.state.records import GroupState
from gateway.state.views import StateViews


class GatesByRecord:
    """One per gateway, for as long as it runs. To be made behind whatever sets `gates.enabled` by the same records."""

    def __init__(self, views: StateViews, gates: GroupGates) -> None:
        self._views = views
        self._gates = gates
        views.subscribe(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """The records were changed."""
        views = self._views
        self._gates.recorded(
            {
                record.group: RecordedGate(
                    promoted=record.state is GroupState.PROMOTED,
                    changed_at=views.changed_at(key_of(record)),
                    link=record.link,
                    promoting=record.state is GroupState.PENDING_PROMOTED,
                )
                for record in views.groups.values()
            },
            views.mirrors_grown_at,
        )
