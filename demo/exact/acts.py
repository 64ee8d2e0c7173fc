"""The acts: prepare, roll onto the gateway, promote, reverse, failback promote, judge."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from demo.clusters import create_topic, start
from demo.commands import compile_java
from demo.errors import DemoError
from demo.exact.cast import backlog_parts, group_of
from demo.exact.run import ExactRun, Mirror
from demo.exact.settings import COMPACTED, COMPACTED_S, PROFILES, STATES_S, TOPICS
from demo.exact.verdict import ExactVerdict, judge_logs
from demo.fleet import Client
from demo.history import Side
from demo.lockgate import Lockgate
from demo.readback import read_topic
from demo.settings import (
    BACKLOG_COPIED_S,
    BACKLOG_WRITTEN_S,
    CLIENT_STARTED_S,
    CLIENT_STOPPED_S,
    CLUSTER_UP_S,
    GATEWAY_UP_S,
    GROUP_CAUGHT_UP_S,
    GROUP_PROMOTED_S,
    READ_BACK_S,
    TOPIC_PROMOTED_S,
)


def prepare(run: ExactRun) -> None:
    """Two clusters, three topics with a backlog, live clients on the source."""
    settings = run.settings
    with run.view.step("Start the clusters") as step:
        clusters = (run.source, run.target)
        run.at_once([partial(start, cluster) for cluster in clusters], "the clusters to start", CLUSTER_UP_S + 10)
        for topic in TOPICS:
            configs = COMPACTED if topic == PROFILES else {}
            create_topic(run.source.bootstrap, topic, settings.partitions, configs)
        step.note = ", ".join(f"{cluster.spec.name}: Kafka {cluster.spec.kafka_version}" for cluster in clusters)
    with run.view.step(f"Write a backlog of {settings.backlog:,} records to two topics"):
        writers = [Client(part, run.logs, run.fleet.history) for part in backlog_parts(settings)]
        try:
            for writer in writers:
                writer.start(run.source.bootstrap, Side.SOURCE)
            run.until(lambda: all(w.ended() for w in writers), "the backlog to be written", BACKLOG_WRITTEN_S)
        finally:
            for writer in writers:
                writer.kill(1.0)
    with run.view.step("Wait until the source has compacted its log") as step:
        step.note = f"{_compacted(run):,} records are left of {settings.backlog:,}"
    with run.view.step("Start five producers and three groups on the source"):
        run.in_background(lambda: compile_java(settings.source_kafka, run.classes), "the Java compiler", 60.0)
        for client in run.fleet.clients:
            client.start(run.source.bootstrap, Side.SOURCE)
        run.until(lambda: all(p.acknowledged for p in run.fleet.producers), "every producer's first record", 60.0)
        run.until(lambda: all(m.read_here for m in run.fleet.members()), "every group's first record", 60.0)


def migrate(run: ExactRun) -> None:
    """Link, mirror, and one rolling restart of every client."""
    settings = run.settings
    with run.view.step("Start the gateway, create the link and the mirror topics"):
        run.gateway = gateway = Lockgate(run.target.bootstrap, run.logs)
        gateway.start()
        run.until(gateway.healthy, "the gateway to be healthy", GATEWAY_UP_S)
        run.command("link", "create", settings.link, "--bootstrap", run.source.bootstrap)
        for topic in TOPICS:
            run.command("mirror", "create", topic, "--link", settings.link)
    with run.view.step("Copy the backlog"):
        _until_each(
            run, lambda found: found.lag is not None and found.lag <= 1000, "the backlog to be copied", BACKLOG_COPIED_S
        )
    with run.view.step("Restart each producer onto the gateway"):
        for producer in run.fleet.producers:
            _move(run, producer)
            run.until(partial(_goes_on, producer), f"{producer.part.name} to go on", CLIENT_STARTED_S)
    with run.view.step("Restart each consumer onto the gateway; the groups promote by themselves"):
        for member in run.fleet.members():
            _move(run, member)
        run.until(
            lambda: all(m.read_here for m in run.fleet.members()), "every group to read on the target", GROUP_PROMOTED_S
        )
    _traffic(run, "before the promote")
    with run.view.step("Look for aborted records among the copies"):
        run.copied = run.read(run.target.bootstrap, aborted=True)


def there_and_back(run: ExactRun) -> None:
    """Promote all topics as one set, reverse, failback promote; nobody is restarted."""
    settings = run.settings
    link = ("--link", settings.link)
    with run.view.step("Promote the three topics as one set"):
        run.command("mirror", "promote", *TOPICS, *link, "--yes", "--wait", timeout_s=TOPIC_PROMOTED_S)
        _until_each(run, lambda found: found.state == "STOPPED", "every topic to be STOPPED", STATES_S)
    _traffic(run, "on the target")
    with run.view.step("Reverse: the failback destination follows the target"):
        for topic in TOPICS:
            run.command("mirror", "reverse", topic, *link, "--yes")
        _until_each(run, lambda found: found.state == "ACTIVE", "every reverse mirror to be ACTIVE", STATES_S)
    _traffic(run, "on the target, mirrored back")
    with run.view.step("Promote the reverse mirrors: back on the source"):
        run.command("mirror", "promote", *TOPICS, *link, "--failback", "--yes", "--wait", timeout_s=TOPIC_PROMOTED_S)
        _until_each(run, _is_failed_back, "home", STATES_S)
    _traffic(run, "on the source again")


def judge(run: ExactRun) -> ExactVerdict:
    """Stop everybody, read both clusters, compare."""
    with run.view.step("Stop the producers, let the groups read to the end, stop them"):
        _stop(run, run.fleet.producers)
        _until_each(run, lambda found: found.lag == 0, "lag 0", STATES_S)
        for topic in TOPICS:
            _read_to_the_end(run, topic)
        _stop(run, run.fleet.members())
        failed_back = all(_is_failed_back(run.mirror(topic)) for topic in TOPICS)
    with run.view.step("Read both clusters back") as step:
        source, target = run.read(run.source.bootstrap), run.read(run.target.bootstrap)
        step.note = ", ".join(f"{topic}: {len(target[topic]):,}" for topic in TOPICS)
    with run.view.step("Stop the gateway and the clusters"):
        if run.gateway is not None:
            gateway, run.gateway = run.gateway, None
            gateway.stop()
        run.at_once([run.source.down, run.target.down], "the clusters to stop", 60.0)
    with run.view.step("Compare the logs"):
        return judge_logs(run.fleet.history, source, target, run.copied, served=run.served, failed_back=failed_back)


def _compacted(run: ExactRun) -> int:
    left = run.settings.backlog

    def look() -> bool:
        nonlocal left
        log = run.in_background(
            lambda: read_topic(run.source.bootstrap, PROFILES, run.settings.partitions, READ_BACK_S), PROFILES, 60.0
        )
        left = len(log)
        return left < run.settings.backlog // 2

    run.until(look, "the compacted topic to be compacted", COMPACTED_S)
    return left


def _move(run: ExactRun, client: Client) -> None:
    assert run.gateway is not None
    client.ask_to_stop()
    run.until(client.ended, f"{client.part.name} to stop", CLIENT_STOPPED_S)
    client.start(run.gateway.bootstrap, Side.TARGET)
    run.until(lambda: client.started, f"{client.part.name} to start", CLIENT_STARTED_S)


def _goes_on(producer: Client) -> bool:
    return producer.acknowledged > 0


def _traffic(run: ExactRun, where: str) -> None:
    """Some seconds of traffic, in which every producer must be acknowledged."""
    with run.view.step(f"Traffic {where}"):
        before = {p.part.name: p.acknowledged for p in run.fleet.producers}
        run.pause(run.settings.traffic_s)
        run.until(
            lambda: all(p.acknowledged > before[p.part.name] for p in run.fleet.producers),
            "every producer to be acknowledged",
            CLIENT_STARTED_S,
        )
        run.note_served(where)


def _until_each(run: ExactRun, holds: Callable[[Mirror], bool], what: str, timeout_s: float) -> None:
    run.until(lambda: all(holds(run.mirror(topic)) for topic in TOPICS), what, timeout_s)


def _is_failed_back(mirror: Mirror) -> bool:
    return mirror.state == "ACTIVE" and mirror.direction == "FORWARD"


def _read_to_the_end(run: ExactRun, topic: str) -> None:
    """Until the group has read the last record of each partition (the last offset may be a marker's)."""
    (reader,) = run.fleet.members(group_of(topic))
    log = run.in_background(
        lambda: read_topic(run.target.bootstrap, topic, run.settings.partitions, READ_BACK_S), topic, READ_BACK_S + 5
    )
    last = {p: records[-1].offset + 1 for p, records in log.partitions.items() if records}
    if not run.within(lambda: all(reader.positions.get(p, 0) >= end for p, end in last.items()), GROUP_CAUGHT_UP_S):
        raise DemoError(f"the readers of {topic} did not come to the end: {reader.positions} of {last}")


def _stop(run: ExactRun, clients: list[Client]) -> None:
    for client in clients:
        client.ask_to_stop()
    for client in clients:
        run.until(client.ended, f"{client.part.name} to stop", CLIENT_STOPPED_S)
