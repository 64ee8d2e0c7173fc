"""What makes an operation give up: each is ordinary trouble outside of the fleet, done where the operation is sure to
meet it.

* a promote: somebody writes to the source past the gateways, before each reading of its ends and while the mirror is
  waited for;
* a group promote: somebody sets an offset of the group on the target, once, between commit and reading back;
* a reverse: somebody writes to the failback destination behind the cutover, once, before it is read;
* a restore: the source's brokers delete no topics (delete.topic.enable).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.simulation.clients.records import Sent, record_body, stamped_batch
from tests.simulation.kafka.cluster import ClusterModel
from tests.simulation.kafka.groups.group_offsets import CommittedOffset
from tests.simulation.plan import GROUP, PLAIN, Act, Operation
from tests.simulation.recorder import SOURCE, Recorder

_WHO: Final = "bypass"
_WRITTEN_PAST: Final = ((Operation.PROMOTE_GIVEN_UP, "read_ends"), (Operation.PROMOTE_GIVEN_UP, "await_mirror"))


class Trouble:
    """Args:
    source, target: what is in trouble.
    recorder: is told of what is written, so that it is missed when it is lost.
    """

    def __init__(self, source: ClusterModel, target: ClusterModel, recorder: Recorder) -> None:
        self._source = source
        self._target = target
        self._recorder = recorder
        self._written = 0
        self._taken: set[tuple[int, str]] = set()

    def was_taken(self, act: Act, step: str) -> bool:
        """This step of that act was begun."""
        return (act.number, step) in self._taken

    def stepped(self, act: Act, step: str) -> None:
        """The operation is about to take a step."""
        first = not self.was_taken(act, step)
        self._taken.add((act.number, step))
        at = act.operation, step
        if at in _WRITTEN_PAST or (at == (Operation.REVERSE_GIVEN_UP, "read_source") and first):
            self.write_past(act.topics[0])
        elif act.operation is Operation.GROUP_GIVEN_UP and step == "read_back" and first:
            self._target.groups.offsets.commit(GROUP, {(PLAIN[0], 0): CommittedOffset(0, -1, "set by hand")})

    def write_past(self, topic: str) -> None:
        """A record to the source past the gateways, with acks=1: nobody is told whether it stays."""
        partition = self._source.partition(topic, 0)
        leader = partition.leader
        if leader is None:
            return
        self._written += 1
        value, key = f"{_WHO}:{self._written}", self._recorder.key(SOURCE, topic, 0)
        if self._written == 1:
            self._recorder.opened(_WHO, SOURCE, ordered=False)
        send = [["send", key, value]]
        self._recorder.write("invoke", _WHO, "send", send, self._written)
        now_ms = self._source.brokers[leader.broker_id].now_ms()
        partition.append(leader, stamped_batch(record_body([Sent(b"k", value.encode())]), 1, now_ms))
        self._recorder.write("unknown", _WHO, "send", send, self._written)

    @contextmanager
    def no_deletes(self) -> Iterator[None]:
        """The source refuses to delete topics."""
        self._source.configs["delete.topic.enable"] = "false"
        try:
            yield
        finally:
            self._source.configs["delete.topic.enable"] = "true"
