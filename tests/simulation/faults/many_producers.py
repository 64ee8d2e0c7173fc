"""A topic to every partition of which ten thousand producers have written, four batches each.

Ten thousand clients would take a day of CPU. Their batches are put into the source's log as gateways of the target
would have passed them on, so that mirrors note each of these producers, and hand all of them over with a cutover.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from gateway.state.producer_ids import GATEWAY_PID_BASE
from tests.simulation.clients.records import Sent, record_body, stamped_batch
from tests.simulation.faults.stage import Stage
from tests.simulation.kafka.logs.partition import Partition
from tests.simulation.plan import PLAIN, Event, EventKind
from tests.simulation.recorder import SOURCE

COUNT: Final = 10_000
_BATCHES: Final = 4
_FIRST: Final = GATEWAY_PID_BASE + 2**33
"""Further than the target of a run ever comes with the ids that it issues."""


class ManyProducers:
    """`table`: as `NetworkEvents.table`."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.table: Mapping[EventKind, Callable[[Event], str]] = {EventKind.MANY_PRODUCERS: self._have_written}

    def _have_written(self, _: Event) -> str:
        topic = PLAIN[0]
        if self._stage.written_on(topic) != SOURCE:
            return ""
        partitions = self._stage.source.topics[topic].partitions
        if any(partition.leader is None for partition in partitions):
            return ""
        for partition in partitions:
            self._write(topic, partition)
        return f"{COUNT} producers have written to each of {len(partitions)} partitions of {topic}"

    def _write(self, topic: str, partition: Partition) -> None:
        recorder, leader = self._stage.recorder, partition.leader
        assert leader is not None
        now_ms = self._stage.source.wall_ms(self._stage.source.brokers[leader.broker_id].host)
        process, key = f"many-{partition.index}", recorder.key(SOURCE, topic, partition.index)
        texts = [f"{process}:{number}" for number in range(_BATCHES * COUNT)]
        recorder.opened(process, SOURCE, ordered=False)
        recorder.write("invoke", process, "send", [["send", key, text] for text in texts], 0)
        told = []
        for number, text in enumerate(texts):
            body = record_body([Sent(None, text.encode())])
            sequence, producer = divmod(number, COUNT)
            data = stamped_batch(body, 1, now_ms, producer_id=_FIRST + producer, epoch=0, sequence=sequence)
            offset = partition.append(leader, data).header.base_offset
            told.append(["send", key, [offset, text]])
        recorder.write("ok", process, "send", told, 0)
