"""The faults: each a function that patches the gateway's code in this process, before it starts.

Nothing in the product knows of them: `main('drop a batch')` patches and then runs the command line as usual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any

from gateway.cutover.promote.rules.snapshot import PromoteSnapshot, PromoteStep, StepKind
from gateway.groups.gate.rules.gates import GateStatus, GroupGates
from gateway.groups.rules.promote import GroupStepKind
from gateway.kafka.connection.errors import ConnectionClosed
from gateway.mirror.partition.rules.append_window import AppendWindow, Pending
from gateway.state.records import MirrorState

_AT = 60  # the batch of a partition that is spoilt


def _spoil(change: Callable[[AppendWindow, Pending, Pending], Pending | None]) -> None:
    """Let `change(window, last, batch)` replace one batch of each partition, or decline (None) and be asked again."""
    windows: Any = AppendWindow
    push, seen, last = windows.push, dict[int, int](), dict[int, Pending]()

    def spoilt(window: AppendWindow, batch: Pending) -> None:
        number = seen.get(id(window), 0)
        if batch.data is not None:
            before, last[id(window)] = last.get(id(window)), batch
            alike = before is not None and _count(before) == _count(batch)
            if number >= _AT and before is not None and alike and (new := change(window, before, batch)) is not None:
                batch, number = new, -(1 << 40)
            seen[id(window)] = number + 1
        push(window, batch)

    windows.push = spoilt


def _count(batch: Pending) -> int:
    return batch.following - batch.base


def drop_a_batch() -> None:
    """Instead of the records, the target gets as many empty ones."""
    _spoil(lambda _, last, batch: batch._replace(data=None))


def append_twice() -> None:
    """The batch before is appended again, in the place of this one."""
    _spoil(lambda _, last, batch: batch._replace(data=last.data))


def swap_two_batches() -> None:
    """Two that wait in the queue change places. On a quiet machine none waits: one is kept until there are two."""
    windows: Any = AppendWindow
    take, alone = windows.take, set[int]()

    def change(window: AppendWindow, last: Pending, batch: Pending) -> Pending | None:
        if window.unsent == 0 or window._queue[-1] is not last:
            alone.add(id(window))
            return None
        alone.discard(id(window))
        window._queue[-1] = last._replace(data=batch.data)
        return batch._replace(data=last.data)

    windows.take = lambda window: None if id(window) in alone and window.unsent < 2 else take(window)
    _spoil(change)


def ungate_early() -> None:
    """Every gate stands open."""
    gates: Any = GroupGates
    gates.status = lambda self, group: GateStatus.OPEN
    gates.reads_gated = lambda self, identity, **_: False


def _hasty(snapshot: PromoteSnapshot) -> PromoteStep | None:
    """A decision that waits for no mirror. The real one would give up: nothing mirrors the topic any more."""
    topic = snapshot.topics[0]
    if topic.state is not MirrorState.PENDING_STOPPED or not topic.marked:
        return None
    if snapshot.paused_at is None or not topic.acknowledged(snapshot.gateways):
        return PromoteStep(StepKind.PAUSE_WRITES)
    if topic.drain is None:
        return PromoteStep(StepKind.READ_ENDS)
    return PromoteStep(StepKind.PERSIST_STOPPED if topic.stopped else StepKind.STOP_MIRROR)


def cutover_before_lag_zero() -> None:
    """The mirror is stopped while writes go on; the ends are read, and not waited for."""
    from gateway.cutover.promote import run as module

    promote_run: Any = module
    decide, mark = promote_run.next_step, promote_run.PromoteRun._mark_pending

    def hasty(snapshot: PromoteSnapshot, limits: Any) -> PromoteStep:
        return _hasty(snapshot) or PromoteStep(*decide(snapshot, limits))

    async def stop_first(run: Any, step: PromoteStep) -> None:
        await mark(run, step)
        run.found = {}
        for record in run._gather.records():
            while (ends := run._tools.engine.ends(record)) is None:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)  # noqa: TID251 - this runs in the gateway
            run.found[record.mirror_topic] = ends
            await run._tools.engine.stop_mirror(run._link, record.mirror_topic)
        await asyncio.sleep(1.0)  # noqa: TID251 - this runs in the gateway

    async def stopped_long_ago(run: Any, step: PromoteStep) -> None:
        for topic, ends in run.found.items():
            run._memory.mirror_stopped(topic, ends)

    promote_run.next_step = hasty
    promote_run.PromoteRun._mark_pending = stop_first
    promote_run.PromoteRun._stop_mirror = stopped_long_ago


def the_long_way() -> None:
    """No fault: each forwarded write is sent by `ForwardedProduce`, which is what the next ones patch."""
    from gateway.proxy.produce.forwarded_as_is import ForwardsAsIs

    ForwardsAsIs.sends = lambda *_: False  # type: ignore[method-assign]


def answer_before_commit() -> None:
    """One write is answered as the one before was, and never sent."""
    from gateway.proxy.produce.forwarded_produce import ForwardedProduce

    the_long_way()
    send, told, number = ForwardedProduce._send_source, list[bytes](), [0]

    class Liar:
        def __init__(self, connection: Any) -> None:
            self._connection = connection

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

        def send(self, api: int, version: int, pieces: Sequence[Any], answered: Callable[[Any], None]) -> None:
            def heard(body: memoryview | None) -> None:
                if body is not None:
                    told[:] = [bytes(body)]
                answered(body)

            number[0] += 1
            if number[0] == _AT and told:
                asyncio.get_running_loop().call_soon(answered, memoryview(told[0]))
            else:
                self._connection.send(api, version, pieces, heard)

    def lying(self: Any, connection: Any, *args: Any, **named: Any) -> None:
        send(self, Liar(connection), *args, **named)  # type: ignore[arg-type]

    ForwardedProduce._send_source = lying  # type: ignore[method-assign]


def slow_source(seconds: float = 0.4, held_until: Callable[[], float] = lambda: 0.0) -> None:
    """No fault: each forwarded write is on its way for long. What forgets it under a write pause has something to
    forget."""
    from gateway.proxy.produce.forwarded_produce import ForwardedProduce

    the_long_way()
    send = ForwardedProduce._send_source

    class Slow:
        def __init__(self, connection: Any) -> None:
            self._connection = connection

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

        def send(self, *args: Any) -> None:
            loop = asyncio.get_running_loop()

            def on() -> None:
                left = held_until() - loop.time()
                if left > 0:
                    loop.call_later(left, on)
                    return
                try:
                    self._connection.send(*args)
                except ConnectionClosed:
                    args[3](None)  # as of one that is lost on its way

            loop.call_later(seconds, on)

    def slowly(self: Any, connection: Any, *args: Any, **named: Any) -> None:
        send(self, Slow(connection), *args, **named)  # type: ignore[arg-type]

    ForwardedProduce._send_source = slowly  # type: ignore[method-assign]


def relay_late_answers() -> None:
    """What is in flight to the source at the cutover is not dropped: its answer is relayed, which nothing else
    would."""
    from gateway.proxy.produce.cutover_connections import CutoverLanes

    CutoverLanes.routing_changed = lambda self, routing, changed: None  # type: ignore[method-assign]


def forget_an_acknowledgement() -> None:
    """The pause is acknowledged while writes are on their way to the source, where they come after the promote."""
    from gateway.proxy.produce.forwarder import Forwarder

    held_until = 0.0

    async def at_once(self: Any, topics: Collection[str]) -> dict[str, int]:
        nonlocal held_until
        held_until = held_until or asyncio.get_running_loop().time() + 4.0  # longer than a promote takes
        return dict.fromkeys(topics, 0)

    relay_late_answers()
    slow_source(held_until=lambda: held_until)
    Forwarder.drain_all = at_once  # type: ignore[method-assign]


def release_after_the_acknowledgement() -> None:
    """No fault, but bad luck: under the first write pause the partitions leave this process, and come back later."""
    from gateway.cutover.promote import run as module

    promote_run: Any = module
    hold, released = promote_run.PromoteRun._pause_writes, list[str]()

    async def released_then(run: Any, step: PromoteStep) -> None:
        await hold(run, step)
        if released:
            return
        released.append(run._link)
        engine = run._tools.engine
        while hasattr(engine, "_engine"):
            engine = engine._engine
        owned = engine._owned
        engine.own(frozenset())
        asyncio.get_running_loop().call_later(0.5, engine.own, owned)

    promote_run.PromoteRun._pause_writes = released_then


def rewind_a_group() -> None:
    """After the offsets were read back, and before the gate opens, the group is set back by ten records."""
    from gateway.groups.promote import GroupPromotions

    take = GroupPromotions._take

    async def rewinding(self: Any, record: Any, progress: Any, step: Any) -> None:
        if step.kind is GroupStepKind.MARK_PROMOTED:
            offsets = {(o.topic, o.partition): (max(0, o.target_offset - 10), o.metadata) for o in progress.carried}
            await self._offsets.commit_on_target(record, offsets)
        await take(self, record, progress, step)

    GroupPromotions._take = rewinding  # type: ignore[method-assign]


def forget_a_fence_of_the_fleet() -> None:
    """A pause that the leader asks for is acknowledged while writes are on their way through this gateway."""
    from gateway.cutover.write_pause.follower import PauseAnswers
    from gateway.cutover.write_pause.rules.write_pause import Pause

    async def at_once(self: Any, body: Any) -> Any:
        self._publisher.pause([Pause(str(body["topic"]), int(body["epoch"]), int(body["term"]))])
        return {"epoch": int(body["epoch"]), "unknown_outcomes": 0, "phase": "paused"}

    relay_late_answers()
    slow_source(4.0)  # longer than a promote takes, on a busy machine too
    PauseAnswers._asked_to_drain = at_once  # type: ignore[method-assign]


def overlook_the_lease() -> None:
    """Writes go on, and are answered, when the lease of this gateway is over."""
    from gateway.fleet.fleet import Fleet
    from gateway.fleet.parts import LeaseGuard

    async def never(self: Any) -> None:
        await asyncio.Event().wait()

    Fleet.lease_valid = lambda self: True  # type: ignore[method-assign]
    LeaseGuard.run = never  # type: ignore[method-assign]


FLEET_PATCHES: dict[str, Callable[[], None]] = {
    "forget a write pause of the fleet": forget_a_fence_of_the_fleet,
    "overlook the lease": overlook_the_lease,
}
"""Faults of one gateway of several."""

PATCHES: dict[str, Callable[[], None]] = {
    patch.__name__.replace("_", " "): patch
    for patch in (
        drop_a_batch,
        append_twice,
        swap_two_batches,
        ungate_early,
        cutover_before_lag_zero,
        answer_before_commit,
        slow_source,
        forget_an_acknowledgement,
        release_after_the_acknowledgement,
        rewind_a_group,
    )
}


def main(name: str) -> None:
    """Patch, then run the command line."""
    from gateway.cli.main import main as run

    {**PATCHES, **FLEET_PATCHES}[name]()
    run()
