"""The last act: what was done, told and signed; stop, read both clusters back, compare."""

from __future__ import annotations

from functools import partial

from demo.app.acts import pauses
from demo.app.look import Held, held, last_counts
from demo.app.run import FORCE, AppRun
from demo.app.settings import BILLING, BOOKED, CHANGELOG, COUNTS, MIGRATION, PAYMENTS, STATES_S, STOPPED_S, WORDS
from demo.app.verdict import AppVerdict, Told, judge_all, wanted_counts
from demo.errors import DemoError
from demo.fleet import Client
from demo.history import Side
from demo.settings import READ_BACK_S

_LOOK_S = 2.0


def judge(run: AppRun) -> AppVerdict:
    """Everything that the run has left."""
    with run.view.step("Tell what was done as a signed report, and check it") as step:
        step.note = _report(run)
    with run.view.step("Stop the producers, let the applications come to their end, stop them") as step:
        _stop(run, run.fleet.producers)
        if not run.within(run.now_and_then(partial(_have_processed, run), _LOOK_S), STATES_S):
            step.note = "an application did not come to its end"  # the judge will say what is missing
        _stop(run, run.fleet.members())
    with run.view.step("Let the mirrors back come to their end, read both clusters back") as step:
        found: dict[Side, Held] = {}
        run.within(run.now_and_then(partial(_are_level, run, found), _LOOK_S), STATES_S)  # else the judge will say
        step.note = f"{sum(map(len, found[Side.TARGET].logs.values())):,} records"
    with run.view.step("Stop the gateway and the clusters"):
        migration = run.migration()
        if run.gateway is not None:
            gateway, run.gateway = run.gateway, None
            gateway.stop()
        run.look_no_more()
        run.at_once([run.source.down, run.target.down], "the clusters to stop", 60.0)
    with run.view.step("Compare"):
        told = Told(
            forced=sum(FORCE in command for command in run.commands),
            rehearsed_stall_ms=run.rehearsed_stall_ms,
            pause_ms=max(pauses(migration), default=None),
            undone=run.undone,
            report_verified=run.report_verified,
        )
        return judge_all(run.fleet.history, found[Side.SOURCE], found[Side.TARGET], told)


def _report(run: AppRun) -> str:
    private, public, report = (str(run.logs / name) for name in ("key.pem", "key.pub", "report.json"))
    run.command("report", "key", private, public)
    page = str(run.logs / "report.html")
    run.command("report", "create", "--migration", MIGRATION, "--json", report, "--html", page, "--key", private)
    try:
        run.command("report", "verify", report, "--public-key", public)
    except DemoError as error:
        return error.log_tail
    run.report_verified = True
    return report


def _have_processed(run: AppRun) -> bool:
    """Every record that was acknowledged, by who reads it."""
    acks = run.fleet.history.acks
    read = {record for batch in run.fleet.history.reads[BILLING] for record in batch.ids}
    if len(read) < len(acks["orders-librdkafka"]):
        return False
    logs = _read(run, Side.TARGET, (WORDS, COUNTS, PAYMENTS, BOOKED)).logs
    return len(logs[BOOKED]) >= len(logs[PAYMENTS]) and last_counts(logs[COUNTS]) == wanted_counts(logs[WORDS])


def _are_level(run: AppRun, found: dict[Side, Held]) -> bool:
    """Both sides hold as many records; what they hold is left in `found`."""
    for side in Side:
        found[side] = _read(run, side)
    sizes = [{topic: len(log) for topic, log in found[side].logs.items() if topic != CHANGELOG} for side in Side]
    return sizes[0] == sizes[1]


def _read(run: AppRun, side: Side, topics: tuple[str, ...] | None = None) -> Held:
    bootstrap, partitions = run.cluster(side).bootstrap, run.settings.partitions
    work = partial(held, bootstrap, partitions, *([topics] if topics else []))
    return run.in_background(work, f"the logs of the {side}", READ_BACK_S + 5)


def _stop(run: AppRun, clients: list[Client]) -> None:
    for client in clients:
        client.ask_to_stop()
    for client in clients:
        run.until(client.ended, f"{client.part.name} to stop", STOPPED_S)
