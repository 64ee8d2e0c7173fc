"""Act two: the gateway, the link, the mirror topic, a mirror group, the backlog."""

from __future__ import annotations

from confluent_kafka import KafkaException

from demo.readback import LogEnds
from demo.roster import AUDIT
from demo.run import Run
from demo.settings import BACKLOG_COPIED_S, COMMAND_S, GATEWAY_UP_S

SMALL_LAG = 1000  # records; with the producers running, the backlog counts as copied below it


def link(run: Run) -> None:
    """From nothing to a mirror that follows the source."""
    settings = run.settings
    with run.view.step("Start the gateway") as step:
        run.gateway = gateway = run.describe_gateway()
        gateway.start()
        run.until(gateway.healthy, "the gateway to be healthy", GATEWAY_UP_S)
        step.note = f"clients connect to {gateway.bootstrap}"
    with run.view.step("Create the link"):
        command(run, "link", "create", settings.link, *run.link_options())
    with run.view.step("Create the mirror topic"):
        command(run, "mirror", "create", settings.topic, "--link", settings.link)
    with run.view.step("Declare one of the two mirror groups") as step:
        # The other one is found when its first member makes its first request: both ways are open to an operator.
        command(run, "group", "create", AUDIT, "--link", settings.link)
        step.note = AUDIT
    with run.view.step("Copy the backlog") as step:
        step.note = f"{_copy_backlog(run):,} records on the target"


def command(run: Run, *arguments: str, timeout_s: float = COMMAND_S) -> None:
    """Run a `lockgate` command while the clients are followed."""
    gateway = run.gateway
    assert gateway is not None
    run.in_background(
        lambda: gateway.run(*arguments, timeout_s=timeout_s), "lockgate " + " ".join(arguments), timeout_s + 5
    )


def _copy_backlog(run: Run) -> int:
    topic, partitions = run.settings.topic, run.settings.partitions
    source = LogEnds(run.source.bootstrap, topic, partitions, run.access)
    target = LogEnds(run.target.bootstrap, topic, partitions, run.access)
    done = total = 0

    def copied() -> bool:
        nonlocal done, total
        try:
            done, total = sum(target.read().values()), sum(source.read().values())
        except KafkaException:  # the mirror topic is only just being made
            return False
        run.view.backlog(done, total)
        return total - done <= SMALL_LAG

    try:
        run.until(copied, "the backlog to be copied", BACKLOG_COPIED_S)
    finally:
        source.close()
        target.close()
    return done
