"""Act one: two clusters, a backlog, live clients on the source."""

from __future__ import annotations

from functools import partial

from demo.clusters import create_topic, start
from demo.commands import compile_java
from demo.errors import DemoError
from demo.fleet import Client
from demo.history import Side
from demo.roster import BACKLOG_CODECS, backlog_parts
from demo.run import Run
from demo.settings import BACKLOG_WRITTEN_S, CLIENT_STARTED_S, CLUSTER_UP_S, GROUP_CAUGHT_UP_S


def prepare(run: Run) -> None:
    """Clusters, backlog, clients."""
    settings = run.settings
    clusters = [run.target] if settings.direct else [run.source, run.target]
    with run.view.step("Start the clusters") as step:
        run.at_once([partial(start, cluster) for cluster in clusters], "the clusters to start", CLUSTER_UP_S + 10)
        run.clusters_are_up()
        create_topic(
            run.source.bootstrap, settings.topic, settings.partitions, replicas=settings.replicas, access=run.access
        )
        step.note = ", ".join(f"{cluster.spec.name}: Kafka {cluster.spec.kafka_version}" for cluster in clusters)
    with run.view.step(f"Write a backlog of {settings.backlog:,} records") as step:
        _write_backlog(run)
        step.note = ", ".join(BACKLOG_CODECS)
    with run.view.step("Start three producers and two groups on the source") as step:
        _start_clients(run)
        step.note = f"{settings.rate:,.0f} records/s; the groups have read the backlog"


def _write_backlog(run: Run) -> None:
    writers = [Client(part, run.logs, run.fleet.history) for part in backlog_parts(run.settings)]
    try:
        for writer in writers:
            writer.start(run.source.bootstrap, Side.SOURCE)
        run.until(lambda: all(w.ended() for w in writers), "the backlog to be written", BACKLOG_WRITTEN_S)
    finally:
        for writer in writers:
            writer.kill(1.0)


def _start_clients(run: Run) -> None:
    fleet = run.fleet
    run.in_background(
        lambda: compile_java(run.settings.source_kafka, run.classes), "the Java compiler", CLIENT_STARTED_S
    )
    for client in fleet.clients:
        client.start(run.source.bootstrap, Side.SOURCE)
    run.until(lambda: all(p.acknowledged for p in fleet.producers), "every producer's first record", CLIENT_STARTED_S)
    for member in fleet.members():
        run.until(partial(_has_partitions, member), f"the partitions of {member.part.name}", CLIENT_STARTED_S)
    if not run.caught_up(run.source.bootstrap, GROUP_CAUGHT_UP_S):
        raise DemoError(f"waited {GROUP_CAUGHT_UP_S:.0f} s for the groups to read the backlog")


def _has_partitions(member: Client) -> bool:
    return bool(member.assigned)
