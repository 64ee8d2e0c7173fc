from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tests.chaos.disks import SIZE_MB, SmallDisk, unmount_all

WRITER = "import sys; f = open(sys.argv[1], 'wb'); sys.stdin.read(1); f.write(b'x' * 100_000); f.close()"


class Node:
    """A broker's folder, and a process that writes into it when told to."""

    def __init__(self, data: Path) -> None:
        self.data = data
        data.mkdir()
        self.process: subprocess.Popen[bytes] | None = None

    def pid(self) -> int | None:
        return None if self.process is None or self.process.poll() is not None else self.process.pid

    def writes(self) -> bool:
        """Whether its write succeeded."""
        assert self.process is not None
        self.process.communicate(b"!", timeout=30)
        return self.process.returncode == 0

    def begins(self) -> None:
        command = [sys.executable, "-c", WRITER, str(self.data / "file")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "data")


@pytest.mark.parametrize("may_mount", [True, False])
def test_a_full_disk_takes_nothing_and_an_empty_one_does(node: Node, may_mount: bool) -> None:
    disk = SmallDisk(cast("Any", node))
    if may_mount:
        disk.mount()
        if not disk.mounted:
            pytest.skip("this user may not mount a file system")
    try:
        node.begins()
        disk.fill()
        assert not node.writes()
        disk.empty()
        node.begins()
        disk.empty()
        assert node.writes()
    finally:
        disk.unmount()


def test_what_a_killed_run_has_left_is_taken_away(node: Node) -> None:
    disk = SmallDisk(cast("Any", node))
    disk.mount()
    if not disk.mounted:
        pytest.skip("this user may not mount a file system")
    disk.fill()
    with pytest.raises(OSError, match="No space left") as full, (node.data / "one").open("wb") as file:
        file.write(b"x" * (SIZE_MB << 10))
    assert full.value.errno == errno.ENOSPC
    unmount_all(node.data.parent)
    assert list(node.data.iterdir()) == []
