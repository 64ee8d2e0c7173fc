"""CPU time and memory of a process, read from /proc."""

from __future__ import annotations

import os
import sys
import threading
import time

import pytest

from bench.proc import Meter, memory_kb

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def burn(seconds: float) -> None:
    """Take so much CPU time in this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_meter_counts_what_this_process_takes() -> None:
    before, meter = time.process_time(), Meter(os.getpid())
    burn(0.05)
    used = meter.cpu_s
    spent = time.process_time() - before
    assert used is not None
    assert 0.05 <= used <= spent + 0.001


def test_a_meter_counts_threads_that_have_ended() -> None:
    meter = Meter(os.getpid())
    thread = threading.Thread(target=burn, args=(0.2,))
    thread.start()
    thread.join()
    used = meter.cpu_s
    assert used is not None
    assert used >= 0.17  # the process's own count is user and system time, each rounded down to 10 ms


def test_where_nothing_stands_between_nothing_is_charged() -> None:
    meter = Meter(None)
    assert meter.cpu_s is None
    assert meter.per(1.0, "cpu") == {}


def test_memory_is_what_the_kernel_says() -> None:
    assert memory_kb(os.getpid()) > 1000
