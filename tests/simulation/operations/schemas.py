"""Two schema registries beside the clusters of a run whose link copies schemas: by the shipped client, over a transport
that takes virtual time and no sockets.

Applications register versions at the source's registry; some register at the target's, too, for a subject that the link
is about to come to. The target refuses changes one by one for a while. At rest each version of the source must be there
under its number and id, but in subjects of the target's own, of which nothing may be overwritten at any time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway import control_parts
from gateway.schemas.schema_sync import SchemaSync
from tests.simulation.judge.schemas import Version, wrong_schemas
from tests.support.registries.in_memory import in_memory
from tests.support.registries.strict_registry import Refusal, StrictRegistry

if TYPE_CHECKING:
    from tests.simulation.world import World

SOURCE_URL: Final = "http://source-registry:8081"
TARGET_URL: Final = "http://target-registry:8081"
_LATENCY_S: Final = (0.002, 0.06)
_APART: Final = 10
"""Ids of the source are so far apart: there is room for those that the target gives by itself."""
_REFUSED: Final = 0.5
_REST_S: Final = 240.0
_LOOK_S: Final = 1.0
_FIRST: Final = ("plain-value", "tx-value")


class Schemas:
    """Of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._dice = world.loop.random("schemas")
        self.source, self.target = StrictRegistry(), StrictRegistry()
        self._theirs: dict[tuple[str, int], Version] = {}  # what clients have registered at the target
        self._comes_first = 0  # how many clients are yet to register before the link does
        self._refuses = False
        self._is_client = False
        self._number = 0
        self.target.before = self._asked
        self.target.add("own-value", _record("Own", 0))
        self._know("own-value", 1)
        for subject in _FIRST:
            self._add(subject)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Gateways find these registries while the block runs."""
        registries = {SOURCE_URL: self.source, TARGET_URL: self.target}
        setattr(  # noqa: B010 - a class elsewhere, of which only the registries are others
            control_parts, "SchemaSync", partial(SchemaSync, open_registry=in_memory(registries, self._takes_its_time))
        )
        try:
            yield
        finally:
            setattr(control_parts, "SchemaSync", SchemaSync)  # noqa: B010 - likewise

    # -- events ------------------------------------------------------------------------------------------------------

    def change(self) -> str:
        """An application registers at the source: a version more of a subject, and the first one of another."""
        more, new = self._dice.choice(sorted(self.source.subjects)), f"subject-{self._number}-value"
        self._add(more)
        self._add(new)
        return f"{more} and {new} get a version at the source's registry"

    def come_first(self) -> str:
        """The next time that the link is about to change a subject at the target, a client registers there first."""
        self._comes_first += 1
        return "a client is about to register at the target's registry what the link comes to"

    def refuse(self, for_s: float) -> str:
        """The target refuses changes, request by request."""
        self._refuses = True
        self._world.soon(self._accept(for_s), "schemas are taken again")
        return f"the target's registry refuses some changes for {for_s:g} s"

    async def _accept(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        self._refuses = False

    # -- judged ------------------------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """At rest all is there; else it is noted."""
        until = self._world.loop.time() + _REST_S
        while True:
            wrong = self._wrong()
            if not wrong or self._world.loop.time() > until:
                break
            await asyncio.sleep(_LOOK_S)
        for what in wrong:
            if self._world.judge.findings.add("schemas_wrong", "the target", what, self._world.loop.time()):
                self._world.story.tell("judge", f"schemas_wrong: {what}")

    def _wrong(self) -> list[str]:
        asked = [f"the source was asked to {request}" for request in self.source.requests]
        return [
            *asked,
            *self.target.offences,
            *wrong_schemas(self.source.content(), self.target.content(), self._theirs, self.target.modes),
        ]

    # -- registries --------------------------------------------------------------------------------------------------

    async def _takes_its_time(self) -> None:
        await asyncio.sleep(self._dice.uniform(*_LATENCY_S))

    def _asked(self, method: str, path: str) -> None:
        """Before each request to the target."""
        parts = path.strip("/").split("/")
        changes = method in ("PUT", "DELETE") or (method == "POST" and parts[-1] == "versions")
        if self._is_client or not changes:
            return
        self._world.story.tell("target", f"its registry is asked to {method} {path}")
        if self._comes_first and parts[0] == "mode" and method == "PUT":  # behind it nobody else registers
            self._comes_first -= 1
            self._registers(parts[1])
        if self._refuses and self._dice.random() < _REFUSED:
            raise Refusal(422, 42205, "refused, for a test")

    def _registers(self, subject: str) -> None:
        self._is_client = True
        self._number += 1
        try:
            status, said = self.target.take(
                "POST", f"/subjects/{subject}/versions", {}, _body(_record("Theirs", self._number))
            )
        finally:
            self._is_client = False
        if status == 200:
            self._know(subject, max(self.target.subjects[subject]))
        self._world.story.tell("target", f"a client registers {subject} at its registry -> {status} {said}")

    def _know(self, subject: str, version: int) -> None:
        self._theirs[subject, version] = self.target.content()[subject][version]

    def _add(self, subject: str) -> None:
        self._number += 1
        number = 100 + _APART * self._number
        self.source.add(subject, _record(f"R{subject.partition('-')[0]}", self._number), schema_id=number)


def _record(name: str, number: int) -> dict[str, Any]:
    """Compatible with every other one of its name."""
    field = {"name": f"f{number}", "type": "int", "default": 0}
    return {"type": "record", "name": name, "fields": [field]}


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"schema": json.dumps(schema)}
