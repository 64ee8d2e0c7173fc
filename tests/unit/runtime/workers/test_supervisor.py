"""The process that has the workers, with workers that do next to nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.waiting import wait_until

SCRIPT = """
import os, select, signal, sys, time
from pathlib import Path
from gateway.runtime.workers.supervisor import Supervisor

folder, mode = Path(sys.argv[1]), sys.argv[2]

def worker(index, life):
    (folder / f"pid-{index}-{os.getpid()}").write_text("")
    if mode == "cannot start" and index == 1:
        while not list(folder.glob("pid-0-*")):  # else the end of this one may come before the other has said anything
            time.sleep(0.01)
        return 3
    signal.signal(signal.SIGTERM, lambda *_: None if mode == "deaf" else os._exit(0))
    life.serves()
    (folder / f"serves-{index}-{os.getpid()}").write_text("")
    while not select.select([life.parent], [], [], 60)[0]:
        pass
    (folder / f"orphan-{index}").write_text("")
    return 0

sys.exit(Supervisor(2, worker, 1.0, time.monotonic).run())
"""


class Run:
    """One supervisor with two workers. `folder`: what they say."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder), mode], stderr=subprocess.DEVNULL)

    def said(self, what: str) -> list[str]:
        return sorted(one.name for one in self.folder.glob(f"{what}-*"))

    def pids(self) -> list[int]:
        """Of the workers that serve, by index."""
        return [int(name.rpartition("-")[2]) for name in self.said("serves")]

    def wait_serving(self, count: int = 2) -> None:
        wait_until(lambda: len(self.said("serves")) >= count, 20.0, what=f"{count} that serve")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[object]:
    made: list[Run] = []

    def run(mode: str = "") -> Run:
        made.append(Run(tmp_path, mode))
        return made[-1]

    yield run
    for one in made:
        for child in psutil.Process(one.process.pid).children() if one.process.poll() is None else ():
            child.kill()
        one.process.kill()
        one.process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_of_them(start, number):
    run = start()
    run.wait_serving()
    pids = run.pids()
    run.process.send_signal(number)
    assert run.process.wait(20) == 0
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_one_that_is_killed_is_started_again(start):
    run = start()
    run.wait_serving()
    os.kill(run.pids()[0], signal.SIGKILL)
    run.wait_serving(3)
    assert len(psutil.Process(run.process.pid).children()) == 2
    run.process.terminate()
    assert run.process.wait(20) == 0


def test_a_signal_between_two_lives_ends_the_gateway_at_once(start):
    run = start()
    run.wait_serving()
    killed = psutil.Process(run.pids()[0])
    killed.kill()
    wait_until(lambda: not killed.is_running(), 5.0, what="its end")
    run.process.terminate()
    assert run.process.wait(20) == 0
    assert len(run.said("serves")) == 2


def test_one_that_cannot_start_is_the_end_of_all(start):
    run = start("cannot start")
    assert run.process.wait(20) == 1
    assert len(run.said("pid")) == 2


def test_those_that_do_not_end_are_killed(start):
    run = start("deaf")
    run.wait_serving()
    began = time.monotonic()
    run.process.terminate()
    assert run.process.wait(20) == 1
    assert time.monotonic() - began >= 1.0


def test_workers_notice_that_their_supervisor_is_gone(start):
    run = start()
    run.wait_serving()
    run.process.kill()
    wait_until(lambda: run.said("orphan") == ["orphan-0", "orphan-1"], 20.0, what="that they notice")


def test_a_worker_has_nothing_open_of_the_others(start):
    """Else a worker would keep its siblings' pipes, and the supervisor's own end, alive."""
    run = start()
    run.wait_serving()
    counts = {len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in run.pids()}
    assert len(counts) == 1, counts
