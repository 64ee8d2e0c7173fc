"""Objects made from files, and made again when the files change: certificates, without a restart."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")
_LOOK_S: Final = 1.0
_log = logging.getLogger(__name__)


class Renewed(Generic[_T]):
    """Checks the files on access, at most once a second; follows links, since mounted secrets are links.

    Args:
        what: for the log.
        make: raises ValueError or OSError for unusable files. Then the former object stays, until the files change
            again: a certificate and its key do not arrive at the same moment.
    """

    def __init__(
        self,
        what: str,
        make: Callable[[], _T],
        files: Iterable[str | os.PathLike[str]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._make = make
        self._files = tuple(files)
        self._clock = clock
        self._seen = self._stamps()
        self._looked = clock()
        self._made = make()

    def get(self) -> _T:
        """The object made from the present files, or from the last usable ones."""
        now = self._clock()
        if now - self._looked >= _LOOK_S:
            self._looked = now
            stamps = self._stamps()
            if stamps != self._seen:
                self._seen = stamps
                self._renew()
        return self._made

    def _renew(self) -> None:
        before = self._made
        try:
            self._made = self._make()
        except (ValueError, OSError) as exc:
            _log.error("%s: the new files are of no use, the old ones stay in force: %s", self._what, exc)
        else:
            if self._made == before:  # for example a file that this process has just written
                return
            _log.info("%s: the new files are in force", self._what)

    def _stamps(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp(file) for file in self._files)


def _stamp(file: str | os.PathLike[str]) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)  # noqa: PTH116 - a path may be text here
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
