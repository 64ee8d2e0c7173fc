"""The lock of a gateway's name: one holder at a time, and free as soon as its process is gone, however it went."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import pytest

from gateway.fleet.rules.membership import is_gone
from gateway.transport.name_lock import NameLock, folder_of

_HOLD = """
import sys
from pathlib import Path
from gateway.transport.name_lock import NameLock
lock = NameLock(sys.argv[1], Path(sys.argv[2]))
print("PLACE", lock.take(), flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["file", "socket"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """For the file; one that cannot be made, so that there is the socket alone."""
    if request.param == "file":
        return tmp_path / "own"
    (tmp_path / "none").write_bytes(b"")
    return tmp_path / "none" / "own"


def test_a_killed_holder_is_proved_dead_and_a_living_one_is_not(folder: Path) -> None:
    name = f"test-{uuid4().hex}"
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, name, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        place = next(line.split()[1] for line in holder.stdout if line.startswith("PLACE "))
        assert "/" in place
        lock = NameLock(name, folder)
        assert lock.take() == ""
        holder.kill()
        holder.wait()
        assert lock.take() == place
        assert lock.take() == place
        assert NameLock(name, folder).take() == ""
        other = NameLock(name + "2", folder)
        assert other.take() not in ("", None)
        other.release()
    lock.release()
    assert lock.take() == place
    lock.release()


def test_who_sits_on_the_socket_takes_no_proof_away(tmp_path: Path) -> None:
    """Any process of the machine can bind it."""
    name = f"test-{uuid4().hex}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as squatter:
        squatter.bind(f"\0lockgate-name-{sha256(name.encode()).hexdigest()}")
        lock = NameLock(name, tmp_path)
        place = lock.take()
        assert place
        assert ";" not in place
        lock.release()
    assert is_gone(place, lock.take())
    lock.release()


def test_the_socket_proves_it_where_the_files_are_gone(tmp_path: Path) -> None:
    """A container that starts again in its pod."""
    name = f"test-{uuid4().hex}"
    before, after = NameLock(name, tmp_path / "one"), NameLock(name, tmp_path / "two")
    place = before.take()
    assert not is_gone(place, after.take())
    before.release()
    assert is_gone(place, after.take())
    after.release()


def test_a_file_that_was_made_anew_is_another_place(tmp_path: Path) -> None:
    name = f"test-{uuid4().hex}"
    first, second = NameLock(name, tmp_path), NameLock(name, tmp_path)
    place = first.take()
    (made,) = tmp_path.iterdir()
    made.unlink()
    found = second.take()
    assert found
    assert not is_gone(place, found)
    first.release()
    second.release()


def test_nobody_else_can_open_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "lockgate"
    lock = NameLock("n", folder)
    assert lock.take()
    (made,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, made.stat().st_mode & 0o777) == (0o700, 0o600)
    lock.release()


def test_it_is_told_once_that_another_process_has_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = NameLock("mine", tmp_path), NameLock("mine", tmp_path)
    assert first.take()
    assert [second.take() for _ in range(3)] == ["", "", ""]
    said = [line for line in capsys.readouterr().out.splitlines() if "another process holds the lock" in line]
    assert [line.split("lock=")[1].split()[0] for line in said] == ["file", "socket"]
    first.release()


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"RUNTIME_DIRECTORY": "/run/lockgate:/run/other", "HOME": "/h"}, "/run/lockgate"),
        ({"XDG_STATE_HOME": "/var/lib", "HOME": "/h"}, "/var/lib/lockgate"),
        ({"XDG_STATE_HOME": "not/absolute", "HOME": "/h"}, "/h/.local/state/lockgate"),
    ],
)
def test_the_folder_is_the_gateways_own(environment: dict[str, str], found: str) -> None:
    assert folder_of(environment) == Path(found)
    assert os.sep in found
