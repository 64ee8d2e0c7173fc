"""`python -m demo.secure`: the migration with TLS, logins and ACLs everywhere. Exit code 0 for a PASS, 1 otherwise."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from demo.acts.cut import cut
from demo.acts.judge import judge
from demo.acts.link import link
from demo.acts.move import move
from demo.acts.prepare import prepare
from demo.checker import Window
from demo.clients.common import now_ms
from demo.performance import open_view, perform
from demo.roster import AUDIT, BILLING
from demo.secure.authorizer_log import decisions_of
from demo.secure.identities import Identities, judge_identities, look_at_source, look_at_target
from demo.secure.report import SecureVerdict, last_line, write_report
from demo.secure.run import SecureRun
from demo.secure.settings import FOLDER, REPORT, secure_settings

_REFERENCE = "on a broker of the source"


def main() -> int:
    """Run, report, clean up."""
    parser = argparse.ArgumentParser(prog="python -m demo.secure", description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="logs, configs, data (default: %(default)s)")
    parser.add_argument("--report", type=Path, default=REPORT, help="JSON (default: %(default)s)")
    parser.add_argument("--keep-data", action="store_true", help="keep the brokers' data for a look afterwards")
    args = parser.parse_args()
    settings = secure_settings(folder=args.folder.absolute(), report=args.report.absolute(), keep_data=args.keep_data)
    view = open_view("A migration between two clusters, each client under its own name")
    _, verdict, failure = perform(view, lambda: SecureRun(settings, view), _acts)
    write_report(settings, view.steps, verdict, failure)
    faults = [] if verdict is None else verdict.faults(settings)
    for fault in faults:
        view.console.print(f"   {fault}", style="red", markup=False)
    sys.stdout.write(last_line(settings, verdict, failure) + "\n")
    return 1 if failure or verdict is None or faults else 0


def _acts(run: SecureRun) -> SecureVerdict:
    prepare(run)
    run.intrude(_REFERENCE, run.source.bootstrap, BILLING)
    link(run)
    run.intrude("through the gateway, while the topic is mirrored", run.moved_to, AUDIT)
    move(run)
    moved_at_ms = now_ms()
    run.intrude("through the gateway, with all clients moved", run.moved_to, AUDIT)
    cut(run)
    run.intrude("through the gateway, after the promote", run.moved_to, BILLING)
    run.pause(run.settings.traffic_after_kill_s)
    logs = judge(run)
    with run.view.step("Read the brokers' authorizer logs"):
        identities = run.in_background(lambda: _identities(run, moved_at_ms), "the authorizer logs", 120.0)
    return SecureVerdict(logs, identities, run.told)


def _identities(run: SecureRun, moved_at_ms: int) -> Identities:
    promote = run.promote
    assert promote is not None
    forwarding = Window(moved_at_ms, promote.start_ms)
    topic = run.settings.topic
    return judge_identities(
        look_at_source(decisions_of(run.source), topic, forwarding),
        look_at_target(decisions_of(run.target), topic, forwarding, promote),
        run.told,
        _REFERENCE,
        producers=[producer.part.name for producer in run.fleet.producers],
        members=[member.part.name for member in run.fleet.members()],
    )


if __name__ == "__main__":
    sys.exit(main())
