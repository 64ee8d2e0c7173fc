"""A job's progress on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

from rich.progress import TextColumn

from gateway.cli.output import duration, rate
from gateway.cli.progress import Bar
from gateway.jobs.catch_up_ends import Progress as Done


class JobProgress(Bar):
    """Of a job, which says itself how long it still takes."""

    def __init__(self, what: str) -> None:
        super().__init__(what, TextColumn("{task.percentage:.1f} %"))

    def show(self, done: Done) -> None:
        """The latest numbers."""
        eta = "" if done.eta_s < 0 else f", {duration(done.eta_s)} to go"
        detail = f"{done.bytes_done / 1e6:,.0f} of {done.bytes_total / 1e6:,.0f} MB, {rate(done.bytes_per_s)}{eta}"
        if not done.bytes_total:  # a job that counts tasks
            detail = f"{done.records_done:,} of {done.records_total:,} tasks"
        self.tell(done.records_done, done.records_total, detail)
