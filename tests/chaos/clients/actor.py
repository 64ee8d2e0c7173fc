"""What all clients of a run have in common: a thread, a life after a life, and every operation recorded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from tests.support.clients.recorder import Recorder

STOP_S = 120.0
"""Longer than any client waits for an answer."""

_WANTS_PARTITION = re.compile(r"mutex_lock\b.*rd_kafka_toppar_(undelegate|forget_leader)", re.DOTALL)


class Actor(ABC):
    """A client that can be stopped and started anew, each time as a new process of the history.

    `errors` are what its library reported to it, `hung` the lives in which it came to nothing by its own fault. A
    library that gave up for good (a fatal error) is replaced by a new instance in the next life. `deadlocked`: the
    lives of all clients of this process that were left alone for librdkafka's deadlock.
    """

    deadlocked: ClassVar[list[str]] = []

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.recorder, self.name = recorder, name
        self.errors: list[str] = []
        self.hung: list[str] = []
        self.lives = 0
        self.bootstrap, self.side = "", ""
        self.stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def process(self) -> str:
        """Its name in the history, in this life."""
        return f"{self.name}.{self.lives}"

    def start(self, bootstrap: str, side: str) -> None:
        """Begin, as a client of these brokers or gateways; `side`: whose offsets it sees."""
        self.bootstrap, self.side = bootstrap, side
        self.stopping.clear()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Finish what is under way."""
        self.stopping.set()

    def stop(self) -> None:
        """Ask, and wait for the end.

        Raises:
            AssertionError: it did not end.
        """
        self.ask_to_stop()
        if self._thread is not None:
            self._thread.join(STOP_S)
            if self._thread.is_alive():
                self._leave_alone(self._thread)

    def _leave_alone(self, thread: threading.Thread) -> None:
        """A life that does not end, by a known fault of its library; its brokers hear no more of it.

        The stacks do not say whose they are: as many clients are left alone as there are deadlocks, and no more.
        """
        stacks = _native_stacks()
        if deadlocks_of_librdkafka(stacks) <= len(self.deadlocked):
            sys.stderr.write(stacks)
            raise AssertionError(f"client {self.name} does not end: {_where(thread)}")
        sys.stderr.write(f"{self.process} hangs in librdkafka (its issue 5476), and is left alone\n")
        self.hung.append(self.process)
        self.deadlocked.append(self.process)
        self._thread = None

    def _run(self) -> None:
        while not self.stopping.is_set():
            self.lives += 1
            try:
                self.live()
            except Exception as error:  # noqa: BLE001 - whatever ended the client, the next life goes on
                self.failed(f"ended: {error!r}")
                self.stopping.wait(0.5)

    @abstractmethod
    def live(self) -> None:
        """One life, until `stopping` or until the library is of no use any more."""

    def opened(self, **said: Any) -> None:
        """Say who the process is."""
        self.recorder.write("ok", self.process, "open", {"side": self.side, **said})

    def failed(self, what: str) -> None:
        """Note an error."""
        self.errors.append(f"{self.process}: {what}")


class Positions:
    """How far a reader has come: the next offset per key. `read`: records so far."""

    def __init__(self) -> None:
        self.next: dict[str, int] = {}
        self.read = 0

    def got(self, records: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """Records were read."""
        for key, pairs in records.items():
            if pairs:
                self.next[key] = pairs[-1][0] + 1
                self.read += len(pairs)


def _where(thread: threading.Thread) -> str:
    """What a thread does now: the innermost line of it that is Python's."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None:
        return "nothing is known of it"
    line = traceback.extract_stack(frame)[-1]
    return f"{Path(line.filename).name}:{line.lineno} {line.line}"


def _native_stacks() -> str:
    """Who waits for whom inside a library is seen by a debugger alone; '' where there is none."""
    gdb = shutil.which("gdb")
    if gdb is None:
        return ""
    command = [gdb, "-p", str(os.getpid()), "-batch", "-ex", "thread apply all backtrace 14"]
    with tempfile.TemporaryFile("w+", errors="replace") as said:  # nobody would empty a pipe: gdb stops this process
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=60, check=False)
        said.seek(0)
        return said.read()


def deadlocks_of_librdkafka(stacks: str) -> int:
    """How many pairs of its threads wait for each other's locks for good (confluentinc/librdkafka#5476).

    Its main thread has a partition's lock and wants the client's, since an OffsetForLeaderEpoch ended with its
    connection; a broker's thread has the client's and wants the partition's, since its broker is gone.
    """
    threads = stacks.split("\nThread ")
    mains = sum("rd_kafka_toppar_handle_OffsetForLeaderEpoch" in one and "rwlock_wrlock" in one for one in threads)
    brokers = sum("rd_kafka_broker_fail" in one and _WANTS_PARTITION.search(one) is not None for one in threads)
    return min(mains, brokers)
