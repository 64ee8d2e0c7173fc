"""The last act: stop, read the target back, judge."""

from __future__ import annotations

from collections.abc import Iterable

from demo.checker import Verdict, check
from demo.fleet import Client
from demo.roster import GROUPS
from demo.run import Run
from demo.settings import CLIENT_STOPPED_S, GROUP_CAUGHT_UP_S


def judge(run: Run) -> Verdict:
    """Stop the clients, then compare what they logged with what the logs hold."""
    with run.view.step("Stop the producers, let the groups read to the end, stop them") as step:
        _stop(run, run.fleet.producers)
        if not run.caught_up(run.target.bootstrap, GROUP_CAUGHT_UP_S):
            step.note = "a group did not come to the end"  # the judge will say how much it missed
        _stop(run, run.fleet.members())
    with run.view.step("Read the target's log back") as step:
        target_log = run.read(run.target.bootstrap)
        step.note = f"{len(target_log):,} records"
    with run.view.step("Stop the gateway and the target"):
        if run.gateway is not None:
            gateway, run.gateway = run.gateway, None
            gateway.stop()
        run.in_background(run.target.down, "the target to stop", 40.0)
    with run.view.step("Compare the logs"):
        return check(
            run.fleet.history,
            run.source_log,
            target_log,
            live=tuple(producer.part.name for producer in run.fleet.producers),
            groups=GROUPS,
            promote=run.promote,
            killed_at_ms=run.killed_at_ms,
        )


def _stop(run: Run, clients: Iterable[Client]) -> None:
    clients = list(clients)
    for client in clients:
        client.ask_to_stop()
    for client in clients:
        run.until(client.ended, f"{client.part.name} to stop", CLIENT_STOPPED_S)
