"""Incremental fetch sessions, against a broker's memory of what is in one."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gateway.mirror.engine.fetch_session import FetchSession, Key, SessionRequest
from protocol.fetch import FetchPartition


class Broker:
    """What KIP-227 makes a broker remember."""

    def __init__(self) -> None:
        self.id = 0
        self.epoch = 0
        self.partitions: dict[Key, FetchPartition] = {}
        self.sessions = 0

    def fetch(self, request: SessionRequest) -> tuple[bool, int]:
        """(accepted, session id)."""
        if request.session.epoch == 0:
            self.sessions += 1
            self.id, self.epoch, self.partitions = self.sessions, 0, {}
            assert not request.forgotten
        elif request.session != (self.id, self.epoch + 1):
            return False, 0
        else:
            self.epoch += 1
        for topic, indexes in request.forgotten.items():
            for index in indexes:
                del self.partitions[topic, index]
        for topic, parts in request.topics.items():
            for part in parts:
                self.partitions[topic, part.partition] = part
        return True, self.id


@given(st.integers(0, 2**32))
def test_the_broker_knows_exactly_what_is_wanted(seed: int) -> None:
    random = Random(seed)
    session, broker = FetchSession(), Broker()
    for _ in range(60):
        wanted: dict[Key, FetchPartition] = {
            (topic, index): FetchPartition(index, random.randrange(5))
            for topic in ("a", "b")
            for index in range(3)
            if random.random() < 0.6
        }
        for key in [*session.wanted, *wanted]:
            if key in wanted:
                session.want(key, wanted[key])
            else:
                session.leave(key)
                if random.random() < 0.2:  # and comes back at once
                    session.want(key, FetchPartition(key[1], random.randrange(5)))
                    session.leave(key)
        assert session.wanted == wanted
        fate = random.random()
        if fate < 0.1:
            broker.id = -1  # evicted
        accepted, session_id = broker.fetch(session.request())
        if not accepted or fate > 0.9:  # refused, or the answer was lost
            session.reset()
            continue
        assert broker.partitions == wanted
        session.answered(session_id)


def test_only_changes_are_sent() -> None:
    session = FetchSession()
    first, second = FetchPartition(0, 5), FetchPartition(1, 7)
    session.want(("t", 0), first)
    session.want(("t", 1), second)
    session.request()
    session.answered(9)
    moved = FetchPartition(0, 6)
    session.want(("t", 0), moved)
    session.want(("t", 1), second)
    request = session.request()
    assert (request.session, request.topics, request.forgotten) == ((9, 1), {"t": [moved]}, {})
    session.answered(9)
    session.leave(("t", 0))
    request = session.request()
    assert (request.session, request.topics, request.forgotten) == ((9, 2), {}, {"t": [0]})
    session.answered(9)
    request = session.request()
    assert (request.session, request.topics, request.forgotten) == ((9, 3), {}, {})


def test_a_broker_without_room_for_a_session() -> None:
    session = FetchSession()
    part = FetchPartition(0, 5)
    session.want(("t", 0), part)
    for _ in range(3):
        request = session.request()
        assert (request.session, request.topics) == ((0, 0), {"t": [part]})
        session.answered(0)
