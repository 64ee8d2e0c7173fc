"""Small disks of brokers, so that one can be full: a tmpfs each where this process may mount one.

Where it may not, no write of the broker to a file succeeds while its disk is to be full (RLIMIT_FSIZE; there the error
is another one).
"""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.devcluster.node import NodeProcess

SIZE_MB: Final = 256
"""Half an hour of chaos takes 40."""
_BALLAST: Final = "ballast"
_UNLIMITED: Final = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


class SmallDisk:
    """What the data of a broker is on."""

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self.mounted = False

    def mount(self) -> None:
        """Before the broker is started for the first time."""
        self._node.data.mkdir(parents=True, exist_ok=True)
        options = f"size={SIZE_MB}m,mode=0755"
        command = ["mount", "-t", "tmpfs", "-o", options, "lockgate-chaos", str(self._node.data)]
        self.mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0

    def unmount(self) -> None:
        """When the broker has ended; its data is gone."""
        if self.mounted:
            unmount(self._node.data)
            self.mounted = False

    def fill(self) -> None:
        """From now on no write of the broker to a file succeeds."""
        if self.mounted:
            _fill(self._node.data / _BALLAST)
        else:
            self._limit((0, resource.RLIM_INFINITY))

    def empty(self) -> None:
        """It may write again, if it still runs."""
        if self.mounted:
            (self._node.data / _BALLAST).unlink(missing_ok=True)
        else:
            self._limit(_UNLIMITED)

    def _limit(self, limit: tuple[int, int]) -> None:
        pid = self._node.pid()
        if pid is not None:
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limit)


def _fill(ballast: Path) -> None:
    """Take what is free, and what becomes free meanwhile."""
    with ballast.open("wb") as file:
        size, tries = 0, 0
        while (free := _free(ballast)) and tries < 1000:
            tries += 1
            try:
                os.posix_fallocate(file.fileno(), size, free)
            except OSError as error:  # the broker was faster
                if error.errno != errno.ENOSPC:
                    raise
            else:
                size += free


def _free(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def unmount(folder: Path) -> None:
    """Take the disk from a folder, at the latest when nobody uses it any more."""
    subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)


def unmount_all(folder: Path) -> None:
    """Take away what a run that was killed has left below a folder."""
    below = f"{folder.absolute()}/"
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        place = line.split()[1]
        if place.startswith(below):
            unmount(Path(place))
