"""What a gateway computes keeps its event loop; what others compute, or little, does not."""

from __future__ import annotations

import asyncio
import base64
import json
import zlib

import cramjam
import pytest

from gateway.state.producer_entries import PackedProducers, ProducerEntry
from tests.simulation.fleet.work import Work
from tests.simulation.kernel.loop import SimLoop
from tests.simulation.mutations.lives import Event, EventKind, Operation, brief, life
from tests.simulation.world import simulate

_ROWS = [[2**49 + number, 0, number, number, number] for number in range(40_000)]
_TABLE = PackedProducers.of(ProducerEntry(*row) for row in _ROWS)


def _charged(node: str, *work: object, in_thread: bool = False) -> tuple[Work, list[str]]:
    told: list[str] = []
    with SimLoop(seed=1) as loop:
        loop.node("gw-0").takes_time = True
        found = Work(loop, lambda who, what: told.append(f"{who}: {what}"))

        def do() -> None:
            for each in work:
                each()  # type: ignore[operator]

        async def does() -> None:
            if in_thread:
                await asyncio.to_thread(do)
            else:
                do()

        async def story() -> None:
            await loop.spawn(loop.node(node), does(), "does")
            await asyncio.sleep(0.01)

        with found.charged():
            loop.run_until_complete(story())
    return found, told


def test_a_table_as_json_keeps_the_loop_for_longer_than_it_may_be_kept() -> None:
    work, told = _charged("gw-0", lambda: json.dumps(_ROWS))
    assert len(work.stalls) == len(told) == 1
    assert "most of all for json.dumps" in told[0]


def test_a_packed_one_does_not() -> None:
    work, told = _charged("gw-0", lambda: PackedProducers(_TABLE.rows).text)
    assert not work.stalls
    assert "most of all for zstd.compress" in told[0]


def test_what_one_callback_does_counts_together() -> None:
    little = b"," * 300  # 0.2 ms
    assert _charged("gw-0", lambda: json.loads(b"[1" + b",1" * 300 + b"]"), lambda: zlib.compress(little))[1] == []
    work, told = _charged("gw-0", *[lambda: json.loads(b"[1" + b",1" * 300 + b"]")] * 300)
    assert len(work.stalls) == len(told) == 1


@pytest.mark.parametrize(("node", "in_thread"), [("client", False), ("gw-0", True)])
def test_what_others_and_threads_compute_keeps_no_loop(node: str, in_thread: bool) -> None:
    assert _charged(node, lambda: json.dumps(_ROWS), in_thread=in_thread)[1] == []


def test_all_is_as_it_was_behind_it() -> None:
    before = json.dumps, cramjam.zstd.compress, base64.b64encode, vars(PackedProducers)["of"]
    _charged("gw-0")
    assert (json.dumps, cramjam.zstd.compress, base64.b64encode, vars(PackedProducers)["of"]) == before


def test_a_promote_of_a_topic_with_ten_thousand_producers_keeps_no_loop_for_long() -> None:
    acts = life(Operation.CREATE, Operation.PROMOTE, pause_s=2.0)
    outcome = simulate(brief(acts, events=[Event(EventKind.MANY_PRODUCERS, 0, "", 0.5)]))
    assert outcome.failure == ""
    assert outcome.migrations == 2
    told = [line.what for line in outcome.story]
    assert any("producers have written" in what for what in told)
    assert any("most of all for zstd.compress" in what for what in told), "they are handed over"
