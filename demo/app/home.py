"""The acts behind the first promote: all of it is taken home while everybody works, and promoted once more."""

from __future__ import annotations

from functools import partial
from typing import Final

from demo.app.acts import applications_to_the_gateway, pauses, traffic
from demo.app.run import AppRun
from demo.app.settings import BOOKING, COUNTER, LINK, MIGRATION, MOVED_S, SETS, STATES_S
from demo.errors import DemoError
from demo.fleet import Client
from demo.history import Side

_TRIES: Final = 5


def undo(run: AppRun) -> None:
    """Take the promotes back: topics and the groups of their transactions as one; producers and readers go on."""
    with run.view.step("Wait until every topic is mirrored back"):
        run.until(run.now_and_then(partial(open_for_an_undo, run)), "the undo to be open", STATES_S)
    with run.view.step("Undo the migration") as step:
        for attempt in range(1, _TRIES + 1):
            try:
                run.command("migration", "undo", MIGRATION, "--yes", timeout_s=MOVED_S)
                break
            except DemoError as error:
                step.note = error.log_tail
                if attempt == _TRIES:
                    raise
        run.until(run.now_and_then(partial(_is_home, run)), "every topic and group to be home", STATES_S)
        step.note = f"asked {attempt} time(s)"
    for member in _tied(run):
        with run.view.step(f"Restart {member.part.name} onto the source"):
            run.restart(member, Side.SOURCE)
    traffic(run, Side.SOURCE, "on the source again")
    run.undone = _is_home(run)


def promote_again(run: AppRun) -> None:
    """The same file goes on."""
    with run.view.step("Resume the migration"):
        run.command("migration", "resume", MIGRATION, "--yes")
    applications_to_the_gateway(run, _tied(run))
    with run.view.step("Every set is promoted again") as step:
        run.until_done()
        step.note = f"write pauses: {', '.join(map(str, pauses(run.migration())))} ms"
    traffic(run, Side.TARGET, "on the target again")


def open_for_an_undo(run: AppRun) -> bool:
    """Every topic is mirrored back."""
    standing = [one["undo"] for one in run.migration()["applications"]]
    return all(one is not None and one["open"] == one["promoted"] > 0 for one in standing)


def _tied(run: AppRun) -> list[Client]:
    """Members of groups that change sides with topics: they wait at the gate once these are home."""
    return [member for member in run.fleet.members() if member.part.group in (COUNTER, BOOKING)]


def _is_home(run: AppRun) -> bool:
    """Each topic is written on the source and mirrored from it; each group that is tied to topics reads there."""
    states = run.mirrors()
    topics = {topic for one in SETS for topic in one.topics}
    groups = [run.told(f"/v3/links/{LINK}/groups/{group}")["state"] for group in (COUNTER, BOOKING)]
    return all(states.get(topic) == ("ACTIVE", "FORWARD") for topic in topics) and set(groups) == {"ACTIVE"}
