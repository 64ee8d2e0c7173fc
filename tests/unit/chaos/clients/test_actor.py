"""A client that does not end: by the one fault of librdkafka that is known, or by one that has to be looked into."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from tests.chaos.clients.actor import Actor, deadlocks_of_librdkafka

# As gdb showed them, without addresses.
MAIN = """
Thread 13 (Thread 0x7fa6 (LWP 3035) "rdk:main"):
#3  ___pthread_rwlock_wrlock (rwlock=0x7fa6) at ./nptl/pthread_rwlock_wrlock.c:26
#4  rwlock_wrlock () from librdkafka.so.1
#5  rd_kafka_metadata_refresh_topics () from librdkafka.so.1
#6  rd_kafka_topic_leader_query0 () from librdkafka.so.1
#7  rd_kafka_toppar_handle_OffsetForLeaderEpoch () from librdkafka.so.1
"""
BROKER = """
Thread 23 (Thread 0x7fa6 (LWP 3149) "rdk:broker2"):
#3  ___pthread_mutex_lock (mutex=0x7fa6) at ./nptl/pthread_mutex_lock.c:93
#4  __mtx_lock (mutex=<optimized out>) at ../sysdeps/pthread/mtx_lock.c:25
#5  rd_kafka_toppar_undelegate () from librdkafka.so.1
#6  rd_kafka_broker_fail () from librdkafka.so.1
"""
WAITS = """
Thread 20 (Thread 0x7fa6 (LWP 3137) "rdk:broker3"):
#0  __GI___poll (fds=0x7fa6, nfds=2, timeout=1000) at ../sysdeps/unix/sysv/linux/poll.c:29
#1  rd_kafka_transport_poll () from librdkafka.so.1
"""


def test_both_threads_that_wait_for_each_other_are_there() -> None:
    assert deadlocks_of_librdkafka(WAITS + BROKER + WAITS + MAIN) == 1
    assert deadlocks_of_librdkafka(BROKER + MAIN + BROKER + WAITS + MAIN) == 2


@pytest.mark.parametrize("stacks", ["", WAITS, MAIN + WAITS, BROKER + WAITS, MAIN + BROKER.replace("mutex_lock", "x")])
def test_anything_else_has_to_be_looked_into(stacks: str) -> None:
    assert not deadlocks_of_librdkafka(stacks)


class Hanging(Actor):
    def live(self) -> None:
        """Of no interest here."""


def test_no_more_clients_are_left_alone_than_there_are_deadlocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.chaos.clients.actor._native_stacks", lambda: BROKER + MAIN)
    monkeypatch.setattr(Actor, "deadlocked", [])
    first, second = (Hanging(cast("Any", None), name) for name in ("first", "second"))
    first._leave_alone(threading.current_thread())
    assert first.hung == ["first.0"]
    with pytest.raises(AssertionError, match="client second does not end"):
        second._leave_alone(threading.current_thread())
