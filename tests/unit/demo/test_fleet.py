"""Clients as child processes: followed while they run, restarted where they left off, faults noticed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from demo.commands import Part, Role
from demo.errors import DemoError
from demo.fleet import Client
from demo.history import History, Side
from tests.support.waiting import wait_until

PRODUCER = """
import signal, sys
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
first = int(sys.argv[1])
print('{"ev":"started","t":1}', flush=True)
print('{"ev":"ack","t":2,"s":%d,"p":0,"o":%d}' % (first, first), flush=True)
while not stop:
    signal.sigtimedwait([], 0.01)
print('{"ev":"stopped","t":3,"next":%d}' % (first + 1), flush=True)
"""


STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('{"ev":"started","t":1}', flush=True)
signal.pause()
"""


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], Client]]:
    """Makes clients that run a script, and stops what is left of them."""
    made: list[Client] = []

    def make_client(script: str) -> Client:
        def command(_bootstrap: str, first: int) -> list[str]:
            return [sys.executable, "-c", script, str(first)]

        made.append(Client(Part("one", "none", Role.PRODUCER, "", command), tmp_path, History()))
        return made[-1]

    yield make_client
    for client in made:
        client.kill(5.0)


def follow_until(subject: Client, condition: Callable[[], bool]) -> None:
    def turned() -> bool:
        subject.follow()
        return condition()

    wait_until(turned, what="the client's log")


def test_a_restart_goes_on_with_the_next_number(make: Callable[[str], Client]) -> None:
    subject = make(PRODUCER)
    for _ in range(2):
        subject.start("nowhere", Side.SOURCE)
        follow_until(subject, lambda: subject.acknowledged == 1)
        subject.check()
        subject.ask_to_stop()
        wait_until(subject.ended, what="the client's end")
    assert [ack.seq for ack in subject.history.acks["one"]] == [0, 1]
    assert subject.first == 2
    assert not subject.running


def test_an_end_of_its_own_is_an_error_that_shows_why(make: Callable[[str], Client]) -> None:
    subject = make("import sys; sys.exit('out of luck')")
    subject.start("nowhere", Side.SOURCE)

    def checked() -> bool:
        subject.check()
        return False

    with pytest.raises(DemoError, match="exit code 1") as failure:
        wait_until(checked, what="the client's end")
    assert "out of luck" in failure.value.log_tail


def test_a_stop_without_the_last_event_is_an_error(make: Callable[[str], Client]) -> None:
    subject = make('print(\'{"ev":"started","t":1}\')')
    subject.start("nowhere", Side.SOURCE)
    with pytest.raises(DemoError, match="did not stop cleanly"):
        wait_until(subject.ended, what="the client's end")


def test_a_line_that_is_no_event_is_an_error(make: Callable[[str], Client]) -> None:
    subject = make("print('Traceback', flush=True)")
    subject.start("nowhere", Side.SOURCE)
    with pytest.raises(DemoError, match=r"one\.1: "):
        follow_until(subject, lambda: False)


def test_a_client_that_will_not_stop_is_killed(make: Callable[[str], Client]) -> None:
    subject = make(STUBBORN)
    subject.start("nowhere", Side.SOURCE)
    follow_until(subject, lambda: subject.started)
    subject.kill(0.1)
    assert not subject.running
