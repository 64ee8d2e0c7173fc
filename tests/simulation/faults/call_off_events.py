"""Somebody calls a running promote off, at any step of it: `mirror promote --cancel`.

What he is told is held against what becomes true (`judge/called_off.py`), and behind a promote that was called off
writes go on before anybody asks for the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from tests.simulation.faults.stage import Stage
from tests.simulation.fleet.gateway_node import GatewayNode, NotServing
from tests.simulation.judge.called_off import CallOffAsked, said_to_be
from tests.simulation.operations.operator import LINK
from tests.simulation.plan import PLAIN, Event, EventKind
from tests.simulation.plan.roles import OUT
from tests.simulation.recorder import SOURCE

_ANSWER_S: Final = 60.0
_TRUE_S: Final = 30.0
"""Within which the records show what was said: a commit may be answered before a reader is given it."""
_GOES_ON_S: Final = 120.0
_LOOK_S: Final = 0.1


class CallOffEvents:
    """`table`: as `NetworkEvents.table`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._number = 0
        self._going_on: set[int] = set()
        self._resting = asyncio.Event()
        self._resting.set()
        self.table: Mapping[EventKind, Callable[[Event], str]] = {EventKind.CALLED_OFF: self._called_off}

    async def over(self) -> None:
        """What was called off has been judged: another promote may be asked for."""
        await self._resting.wait()

    def _called_off(self, event: Event) -> str:
        """The leader is asked itself, or whoever answers."""
        act = self._stage.act()
        topics = act.topics if act is not None and act.topics else PLAIN
        topic = topics[self._number % len(topics)]
        self._number += 1
        leader = self._stage.leader() if int(event.hold_s * 100) % 2 else None
        self._stage.soon(self._call_off(topic, self._number, leader, event.hold_s), f"call {topic} off")
        return f"{'anybody' if leader is None else leader.name} is asked to call the promote of {topic} off"

    async def _call_off(self, topic: str, number: int, leader: GatewayNode | None, hold_s: float) -> None:
        stage, claims, clock = self._stage, self._stage.judge.call_offs, self._stage.loop.time
        stage.judge.look()
        asked = claims.asked(stage.operator.open_promotes)
        code, answer = await self._ask(topic, leader)
        said = answer.get("message", "") if isinstance(answer, dict) else answer
        stage.story.tell("operator", f"cancel-promote {topic} -> {code} {said if code != 200 else ''}".rstrip())
        if code == 200:
            topics = [one["mirror_topic_name"] for one in answer["data"]]
            claims.called_off(asked, topics, clock())
            self._going_on.add(number)
            self._resting.clear()
            try:
                await self._writes_go_on(topics, asked.sides)
                await asyncio.sleep(hold_s)
            finally:
                self._going_on.discard(number)
                if not self._going_on:
                    self._resting.set()
        elif (told := said_to_be(answer)) is not None and not await self._becomes_so(asked, *told):
            claims.wrong(told[0], f"it is said to be written on the {told[1]}, and never was: {said}", clock())

    async def _ask(self, topic: str, leader: GatewayNode | None) -> tuple[int, Any]:
        path, body = f"/v3/links/{LINK}/mirrors:cancel-promote", {"mirror_topic_names": [topic]}
        if leader is None:
            return await self._stage.operator.ask("POST", path, body)
        with suppress(NotServing):
            return await leader.api.request("POST", path, body, _ANSWER_S)
        return 0, "no answer"

    async def _becomes_so(self, asked: CallOffAsked, topic: str, side: str) -> bool:
        claims, until = self._stage.judge.call_offs, self._stage.loop.time() + _TRUE_S
        while not claims.is_so(asked, topic, side) and self._stage.loop.time() < until:
            await asyncio.sleep(_LOOK_S)
            self._stage.judge.look()
        return claims.is_so(asked, topic, side)

    async def _writes_go_on(self, topics: list[str], sides: Mapping[str, str]) -> None:
        """On the side where they were: clients have records acknowledged that they send from now on.

        But for what a pipeline writes whose group has not changed sides: its members wait at the gate of a gateway.
        """
        stage, topics = self._stage, [one for one in topics if one != OUT or sides[one] != SOURCE]
        before = {topic: self._end(topic, sides[topic]) for topic in topics}
        until = stage.loop.time() + _GOES_ON_S
        while waits := [topic for topic in topics if self._end(topic, sides[topic]) <= before[topic]]:
            if stage.loop.time() > until:
                what = f"its promote was called off, and it was not written for {_GOES_ON_S:g} s"
                stage.judge.findings.add("stuck", waits[0], what, stage.loop.time())
                return
            await asyncio.sleep(_LOOK_S)

    def _end(self, topic: str, side: str) -> int:
        cluster = self._stage.source if side == SOURCE else self._stage.target
        return sum(cluster.log_range(topic, index)[1] for index in range(len(cluster.topics[topic].partitions)))
