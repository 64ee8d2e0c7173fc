"""Registries in virtual time: a link copies what is registered, and leaves alone what others have registered first."""

from __future__ import annotations

from tests.simulation.fleet import logs
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.mutations.lives import Event, EventKind, Operation, brief, life
from tests.simulation.world import World


def test_versions_come_over_and_what_a_client_has_registered_first_stays() -> None:
    events = (
        Event(EventKind.SCHEMA_FIRST, 0),
        Event(EventKind.SCHEMAS_CHANGED, 0, "", 0.5),
        Event(EventKind.SCHEMAS_REFUSED, 0, "", 0.5, 4.0),
    )
    with logs.told_to(None), SimLoop(1) as loop:
        world = World(brief(life(Operation.CREATE, pause_s=6.0), events=events, schemas=True), loop, None)
        outcome = loop.run_until_complete(world.run())
    assert not outcome.failure, outcome.why
    assert world.schemas is not None
    source, target = world.schemas.source.content(), world.schemas.target.content()
    assert len(source) == 3
    same = {subject for subject, versions in source.items() if target.get(subject) == versions}
    assert len(same) == 2
    (theirs,) = source.keys() - same
    assert [schema_id for schema_id, *_ in target[theirs].values()] != [
        schema_id for schema_id, *_ in source[theirs].values()
    ]
    assert world.schemas.target.modes.get(theirs) != "IMPORT"
