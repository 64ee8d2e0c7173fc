"""The end of a simulated run: what is waited for before it is judged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from gateway.groups.gate.rules.gates import GateStatus
from tests.simulation.operations.ending import Ending


def world(course: list[str], newcomer: Any = None) -> Any:
    """One that tells what it was asked for."""

    async def until(_reached: object, what: str, waits_for: Callable[[], list[str]] = list) -> None:
        course.append("; ".join((what, *waits_for())))

    async def done() -> None:
        pass

    async def stop() -> None:
        course.append("the pipeline stops")

    return SimpleNamespace(
        settled=done,
        loop=SimpleNamespace(network=SimpleNamespace(heal=lambda: None)),
        source=SimpleNamespace(brokers={1: None}, rejoin_broker=lambda broker: None),
        target=SimpleNamespace(brokers={1: None}, rejoin_broker=lambda broker: None),
        writers=[],
        branches={},
        rights=None,
        schemas=None,
        owned=SimpleNamespace(come_to_rest=done, is_over=lambda branch: False),
        topics=lambda: ("plain", "out"),
        cast=SimpleNamespace(stop_producers=done, newcomer=newcomer),
        until=until,
        all_members=lambda: [SimpleNamespace(stop=stop)],
        events=SimpleNamespace(members=list),
        gateways=[gateway("gw-0", GateStatus.OPEN), gateway("gw-1", GateStatus.UNKNOWN)],
    )


def gateway(name: str, gate: GateStatus) -> Any:
    """One at which every group's gate is so."""
    gates = SimpleNamespace(known_status=lambda _group: gate)
    return SimpleNamespace(name=name, bootstrap=f"{name}:9292", serves=True, gateway=SimpleNamespace(_gates=gates))


def test_mirrors_come_level_with_what_a_pipeline_wrote_last():
    course: list[str] = []
    asyncio.run(Ending(world(course)).come_to_rest())
    level = "a mirror is not level"
    assert course == [level, "a group has not read to the end", "the pipeline stops", level]


def test_a_newcomer_is_to_be_let_in_at_every_gateway():
    course: list[str] = []

    async def stop() -> None:
        course.append("the newcomer stops")

    newcomer = SimpleNamespace(
        name="newcomer", group="newcomer", running=True, round_done=False, waits_at="gw-1", stop=stop
    )
    newcomer.go_round = lambda gateways: course.append(f"it goes round {sorted(gateways)}")
    asyncio.run(Ending(world(course, newcomer)).come_to_rest())
    assert course[0] == "it goes round ['gw-0', 'gw-1']"
    waits = "newcomer waits to be let in at gw-1, where the gate of its group is unknown"
    assert course[-2:] == [f"a group that is new has not read to the end; {waits}", "the newcomer stops"]
