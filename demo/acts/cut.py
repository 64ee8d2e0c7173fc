"""Act four: the topic is promoted under load, then the source is killed."""

from __future__ import annotations

from demo.acts.link import command
from demo.checker import Window
from demo.clients.common import now_ms
from demo.run import Run
from demo.settings import TOPIC_PROMOTED_S

AFTERMATH_MS = 1000  # a wait that begins with the end of the promote still counts


def cut(run: Run) -> None:
    """Promote, keep a copy of the source's log, kill the source."""
    settings = run.settings
    with run.view.step("Promote the topic under load"):
        started = now_ms()
        command(
            run,
            "mirror",
            "promote",
            settings.topic,
            "--link",
            settings.link,
            "--yes",
            "--wait",
            timeout_s=TOPIC_PROMOTED_S,
        )
        ended = now_ms()
        run.pause(2 * AFTERMATH_MS / 1000)
        run.promote = Window(started, ended + AFTERMATH_MS)
    with run.view.step("Read the source's log back") as step:
        run.source_log = run.read(run.source.bootstrap)
        step.note = f"{len(run.source_log):,} records"
    with run.view.step("Kill the source cluster") as step:
        pids = [process.pid() for process in run.source.nodes.values()]
        run.source.kill()
        run.killed_at_ms = now_ms()
        step.note = f"SIGKILL to {', '.join(map(str, pids))}"
