"""Other load on the machine: processes that do nothing but take its cores."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_BURN: Final = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(1_000_000))"
"""Until whoever started it has ended, even by SIGKILL."""


@contextmanager
def burning(count: int) -> Iterator[None]:
    """`count` of them while the block runs."""
    burners = [subprocess.Popen([sys.executable, "-c", _BURN]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
        for burner in burners:
            burner.wait()
