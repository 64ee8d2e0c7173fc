"""The lock of a gateway's name: one holder at a time, and free as soon as its process is gone, however it went."""

from __future__ import annotations

import subprocess
import sys
from uuid import uuid4

from gateway.transport.name_lock import NameLock

_HOLD = """
import sys
from gateway.transport.name_lock import NameLock
lock = NameLock(sys.argv[1])
print(lock.take(), flush=True)
sys.stdin.read()
"""


def test_a_killed_holder_is_proved_dead_and_a_living_one_is_not() -> None:
    name = f"test-{uuid4().hex}"
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        place = holder.stdout.readline().strip()
        assert place
        lock = NameLock(name)
        assert lock.take() == ""
        holder.kill()
        holder.wait()
        assert lock.take() == place
        assert lock.take() == place
        assert NameLock(name).take() == ""
        other = NameLock(name + "2")
        assert other.take() == place
        other.release()
    lock.release()
    assert lock.take() == place
    lock.release()
