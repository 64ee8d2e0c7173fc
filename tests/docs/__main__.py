"""Walk through the pages whose commands need clusters: `python -m tests.docs [PAGE...]`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.docs.stage import Stage
from tests.docs.walk import Walked, runs_on_clusters, walk
from tests.support.brokers.clusters import running_cluster
from tests.support.pages.shown import ROOT, blocks, place_of
from tests.support.pages.site import with_commands

_PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}
"""Pages about rights ask for ACLs. Who has none may do everything."""


def main() -> int:
    """The last line says how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="such as docs/start/first-migration.md; default: all")
    parser.add_argument("--show", action="store_true", help="show what each command prints")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: brokers are taken down then, too
    pages = [ROOT / name for name in chosen.pages] or [page for page in with_commands() if runs_on_clusters(page)]
    seen: list[Walked] = []
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lockgate-docs-")))
        source, target = (
            stack.enter_context(running_cluster(name, kafka, top, properties=_PROPERTIES))
            for name, kafka in (("source", "3.9.1"), ("target", "4.3.1"))
        )
        for number, page in enumerate(pages):
            began = time.monotonic()
            folder = top / f"page-{number}"
            folder.mkdir()
            stage = Stage(folder, source.bootstrap, target.bootstrap)
            try:
                walked = walk(page, stage, shows=chosen.show)
                if walked.wrong:
                    walked.wrong += f"\n-- the gateway's log:\n{_end(stage.log)}"
            finally:
                stage.close()
            seen.append(walked)
            word = "FAIL" if walked.wrong else "ok"
            _say(f"{place_of(page)}: {word} commands_run={walked.commands} seconds={time.monotonic() - began:.0f}")
            if walked.wrong:
                _say(walked.wrong)
    left_out = sum(len(block.lines) for page in with_commands() for block in blocks(page) if block.reason is not None)
    verdict = "FAIL" if any(one.wrong for one in seen) else "PASS"
    _say(
        f"test-docs: {verdict} pages={len(seen)} commands_run={sum(one.commands for one in seen)} "
        f"outputs_compared={sum(one.outputs for one in seen)} not_run={left_out}"
    )
    return 0 if verdict == "PASS" else 1


def _end(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:] if log.exists() else "none"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
