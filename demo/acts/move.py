"""Act three: one rolling restart of every client onto the gateway."""

from __future__ import annotations

from demo.errors import DemoError
from demo.fleet import Client
from demo.history import Side
from demo.roster import GROUPS
from demo.run import Run
from demo.settings import CLIENT_STARTED_S, CLIENT_STOPPED_S, GROUP_CAUGHT_UP_S, GROUP_PROMOTED_S


def move(run: Run) -> None:
    """Producers first, then consumers; whoever is not yet moved goes on at the source."""
    for producer in run.fleet.producers:
        with run.view.step(_title(run, producer)):
            _restart(run, producer)
            _until_acknowledged(run, producer)
    for group in GROUPS:
        for member in run.fleet.members(group):
            with run.view.step(_title(run, member)):
                _restart(run, member)
                _until_shared(run, group)
    title = "The groups read on" if run.settings.direct else "The groups promote by themselves"
    with run.view.step(title) as step:
        for group in GROUPS:
            _until_reading(run, group)
        if not run.caught_up(run.target.bootstrap, GROUP_CAUGHT_UP_S):
            raise DemoError(f"waited {GROUP_CAUGHT_UP_S:.0f} s for the groups to catch up on the target")
        step.note = ", ".join(GROUPS)


def _title(run: Run, client: Client) -> str:
    where = "in place" if run.settings.direct else "onto the gateway"
    return f"Restart {client.part.name} ({client.part.library}) {where}"


def _restart(run: Run, client: Client) -> None:
    client.ask_to_stop()
    run.until(client.ended, f"{client.part.name} to stop", CLIENT_STOPPED_S)
    client.start(run.moved_to, Side.TARGET)
    run.until(lambda: client.started, f"{client.part.name} to start", CLIENT_STARTED_S)


def _until_acknowledged(run: Run, producer: Client) -> None:
    run.until(lambda: producer.acknowledged > 0, f"{producer.part.name} to be acknowledged", CLIENT_STARTED_S)


def _until_shared(run: Run, group: str) -> None:
    """Wait until those who are left on the source have all partitions among them again."""
    run.until(lambda: run.covered(group, Side.SOURCE), f"the rest of {group} to share the partitions", CLIENT_STARTED_S)


def _until_reading(run: Run, group: str) -> None:
    members = run.fleet.members(group)
    run.until(
        lambda: run.covered(group, Side.TARGET) and all(member.read_here for member in members),
        f"every member of group {group} to read on the target",
        GROUP_PROMOTED_S,
    )
