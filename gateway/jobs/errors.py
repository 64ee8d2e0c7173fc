"""What went wrong in a job, in one line: Spark wraps a task's error in pages of traceback."""

from __future__ import annotations

import re
from typing import Final

# The last line of a Python traceback, of an exception class of this project.
_OURS: Final = re.compile(r"^(?:\w+\.)*(?:gateway|protocol)\.[\w.]+: (.+)$", re.MULTILINE)
_BUILT_IN: Final = re.compile(r"^(ValueError: .+|\w*Error: .+)$", re.MULTILINE)


class JobFailed(Exception):
    """The job did not do its work; the message says why in one line."""


def reason(error: BaseException) -> str:
    """The cause that Spark's error carries, if one of ours is in it; else the first line of what Spark says."""
    text = str(error)
    for pattern in (_OURS, _BUILT_IN):
        found = pattern.findall(text)
        if found:
            return str(found[-1]).strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
