"""The holes that lose records, put back: the first one, which chaos found, and those of the way a topic goes.

Each patch makes the shipped code behave as it did before the fix, no more: `git log` of 2026-11-22 says what that was.
Those of groups and of the fleet are in `holes_by_reading.py`.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.app.term import LeaderTerm
from gateway.control import promote_run
from gateway.control.fleet_mirrors import FleetMirrors
from gateway.domain import promote, promote_checks
from gateway.domain.copy_ends import CopyEnds, Standing
from gateway.domain.mirror_states import MirrorOperation, apply
from gateway.domain.records import MirrorDirection, MirrorError
from gateway.domain.way_home import handed_over, stopped
from gateway.mirror.engine import Engine
from tests.simulation.mutations.lives import Event, EventKind, Fault, FaultKind, Operation, again, brief, life
from tests.simulation.mutations.patching import Mutation, Patching
