"""Load 10: many members wait at a group's gate while one old member is still on the source; then it leaves."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer

from bench.errors import BenchError
from bench.lab import Lab
from bench.loads.load import Load, Metrics, Turn
from bench.loads.produce import write_16k
from bench.loads.writing import LINK
from bench.proc import Meter
from bench.process import Conversation
from bench.topics import fresh
from bench.waiting import wait_until

_REST_S: Final = 30.0
_RECORDS: Final = 600


class Gate(Load):
    """`release_ms` is from the first answer to the last, `switch_s` from when the old member leaves to the last."""

    name = "gate"
    share = 36.0
    title = "group gate, 500 waiting members"

    def rounds(self, lab: Lab) -> int:
        """Each takes the hold, the quiet period and the promote."""
        return min(2, lab.profile.rounds)

    def turns(self, lab: Lab) -> Mapping[str, Turn]:
        """See `Load`."""
        return {"gateway": lambda _: self._measure(lab)}

    def _measure(self, lab: Lab) -> Metrics:
        topic, group = lab.on_source.create(fresh(self.name)), fresh("group")
        write_16k(lab.source.bootstrap, topic, _RECORDS)
        old = _old_member(lab.source.bootstrap, group, topic)
        try:
            with lab.gateway.link(LINK, lab.source.bootstrap):
                lab.gateway.mirror(LINK, topic)
                lab.on_target.wait_for_records(topic, _RECORDS, _REST_S)
                return self._wait_and_release(lab, old, group, topic)
        finally:
            with contextlib.suppress(RuntimeError):  # it has left already
                old.close()
            lab.on_source.drop(topic)
            lab.on_target.drop(topic)

    def _wait_and_release(self, lab: Lab, old: Consumer, group: str, topic: str) -> Metrics:
        members = lab.profile.gate_members
        crowd = Conversation(
            "bench.clients.waiting_members", [lab.gateway.bootstrap, group, topic, "--members", str(members)]
        )
        try:
            crowd.hear()
            wait_until(lambda: _waiting(lab, group) == members, _REST_S, "all members at the gate", poll_s=0.1)
            meter = Meter(lab.gateway.pid)
            time.sleep(lab.profile.gate_s)
            waited = (meter.cpu_s or 0.0) / meter.wall_s
            meter = Meter(lab.gateway.pid)
            left = time.monotonic()
            old.close()
            times: dict[str, Any] = json.loads(crowd.hear())
        finally:
            crowd.end()
        if times["first"] < left:
            raise BenchError("the gate let a member through while the group lived on the source")
        return {
            "waiting_cpu_ms_per_s": waited * 1000,
            "release_ms": (times["last"] - times["first"]) * 1000,
            "switch_s": times["last"] - left,
            "release_cpu_ms": (meter.cpu_s or 0.0) * 1000,
        }


def _waiting(lab: Lab, group: str) -> int:
    found = lab.gateway.group(LINK, group)
    return len(found["waiting"]) if found else 0


def _old_member(bootstrap: str, group: str, topic: str) -> Consumer:
    """A consumer on the source that has committed something."""
    member = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    member.subscribe([topic])
    wait_until(lambda: member.poll(0.2) is not None, _REST_S, f"a record of {topic}")
    member.commit(asynchronous=False)
    return member
