"""The event loop's watchdog: what is a stall, whose it is, and what is said of it."""

import asyncio
import time
from collections.abc import Sequence

import pytest

from gateway.transport import loop_watch
from gateway.transport.loop_watch import CAUSES, NOT_SCHEDULED, OTHER, TICK_S, Frame, LoopWatch, cause_of
from tests.support.waiting import wait_until_async as wait_until

ROOT = str(loop_watch._ROOT)
CODEC = (Frame("/usr/lib/python3/json/encoder.py", 1, "encode"), Frame(f"{ROOT}/gateway/state/codec.py", 7, "encode"))


class Scene:
    """A loop that turns by hand; the thread looks when it is told to."""

    def __init__(self) -> None:
        self.now, self.cpu, self.waited = 100.0, 0.0, 0.0
        self.stack: Sequence[Frame] = CODEC
        self.told: list[tuple[str, float, Sequence[Frame], int]] = []
        told = self.told.append
        self.watch = LoopWatch(
            lambda: self.now, lambda: self.cpu, lambda: self.waited, lambda: self.stack, lambda *said: told(said)
        )

    def turn(self, seconds: float, *, cpu: float | None = None, looks: int = 1, waited: float = 0.0) -> None:
        """One turn that takes so long, in which the thread looks so often."""
        for _ in range(looks):
            self.now += (TICK_S + seconds) / looks
            self.watch.look()
        if not looks:
            self.now += TICK_S + seconds
        self.cpu += seconds if cpu is None else cpu
        self.waited += waited
        self.watch.turned()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_short_turns_are_none(scene: Scene) -> None:
    for _ in range(100):
        scene.turn(0.045)
    assert (scene.watch.count, scene.watch.by_cause, scene.told) == (0, {}, [])


def test_a_long_turn_is_counted_by_its_room_and_told_with_its_stack(scene: Scene) -> None:
    scene.turn(0.3, looks=5)
    ((cause, seconds, stack, before),) = scene.told
    assert (cause, round(seconds, 3), stack, before) == ("state", 0.3, CODEC, 0)
    scene.turn(0.1)
    found = scene.watch.by_cause["state"]
    assert (found.turns, round(found.total_s, 3), round(found.longest_s, 3)) == (2, 0.4, 0.3)
    assert scene.watch.count == 2


def test_what_was_told_of_a_turn_before_is_not_told_of_this_one(scene: Scene) -> None:
    scene.turn(0.2)
    scene.turn(0.2, looks=0)
    assert scene.watch.by_cause.keys() == {"state", OTHER}
    assert scene.told[1][2] == ()


def test_one_stack_is_taken_of_a_turn(scene: Scene) -> None:
    asked = []
    scene.watch._stack = lambda: asked.append(1) or CODEC  # type: ignore[func-returns-value]
    scene.turn(2.0, looks=40)
    assert len(asked) == 1


def test_it_is_told_every_ten_seconds_at_most(scene: Scene) -> None:
    for _ in range(50):
        scene.turn(0.2)
    assert [said[3] for said in scene.told] == [0, 44]
    assert scene.watch.by_cause["state"].turns == 50


def test_a_thread_that_waits_for_a_cpu_was_not_scheduled(scene: Scene) -> None:
    """Others of this process run meanwhile, and it computes itself for a while."""
    scene.turn(3.0, cpu=2.0, waited=2.96)
    (found,) = scene.watch.by_cause.values()
    assert (*scene.watch.by_cause, *found) == (NOT_SCHEDULED, 1, pytest.approx(3.0), pytest.approx(3.0))
    assert scene.watch.count == 0


def test_a_process_that_is_suspended_was_not_scheduled(scene: Scene) -> None:
    scene.turn(3.0, cpu=0.01, looks=0)
    assert scene.watch.by_cause.keys() == {NOT_SCHEDULED}
    assert scene.watch.count == 0


def test_a_call_that_waits_in_the_kernel_is_a_stall_of_its_room(scene: Scene) -> None:
    scene.turn(0.3, cpu=0.0)
    assert scene.watch.by_cause.keys() == {"state"}
    assert scene.watch.count == 1


def test_a_thread_that_keeps_the_interpreter_is_a_stall(scene: Scene) -> None:
    """Nobody could look either."""
    scene.turn(0.3, cpu=0.3, looks=0)
    assert scene.watch.by_cause.keys() == {OTHER}
    assert scene.watch.count == 1


@pytest.mark.parametrize(
    ("stack", "cause"),
    [
        ((), OTHER),
        ((Frame("/usr/lib/python3/asyncio/events.py", 1, "run"),), OTHER),
        ((Frame(f"{ROOT}/protocol/batch/keyed.py", 1, "_body"), *CODEC), "protocol"),
        ((Frame(f"{ROOT}/gateway/control_plane.py", 1, "f"),), OTHER),
    ],
)
def test_the_innermost_frame_of_ours_is_the_cause(stack: Sequence[Frame], cause: str) -> None:
    assert cause_of(stack) == cause
    assert cause in CAUSES


def test_every_room_is_a_cause() -> None:
    folders = {each.name for each in (loop_watch._ROOT / "gateway").iterdir() if (each / "__init__.py").exists()}
    assert folders - {"cli", "config", "devcluster", "doctor", "jobs", "quickstart"} == set(loop_watch._ROOMS)


async def test_a_running_loop_is_watched() -> None:
    found: list[LoopWatch] = []
    watching = asyncio.create_task(loop_watch.keep_watching(found.append))
    await wait_until(lambda: bool(found), 5.0)

    def stand_still() -> None:
        until = time.thread_time() + 0.3
        while time.thread_time() < until:
            pass

    stand_still()
    await wait_until(lambda: found[0].count > 0, 5.0)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


def test_a_stack_begins_with_what_the_thread_does() -> None:
    import threading

    stack = loop_watch.stack_of(threading.get_ident())
    assert [frame.function for frame in stack[:2]] == ["stack_of", "test_a_stack_begins_with_what_the_thread_does"]
    assert str(stack[0]).startswith("gateway/transport/loop_watch.py:")
