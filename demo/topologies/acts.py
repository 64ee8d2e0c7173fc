"""The acts: three clusters, five mirrors, producers onto the gateways, loops, the promotes, the judgement."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from demo.clusters import create_topic, start
from demo.errors import DemoError
from demo.fleet import Client
from demo.history import Side
from demo.settings import CLIENT_STARTED_S, CLIENT_STOPPED_S, CLUSTER_UP_S, GATEWAY_UP_S, TOPIC_PROMOTED_S
from demo.topologies.cast import WRITERS, Writer
from demo.topologies.run import TopologyRun
from demo.topologies.settings import BACK, EAST, FIRST, LOOPS, NOT_WRITTEN, SECOND, STATES_S, WAYS, WEST, Way
from demo.topologies.verdict import TopologyVerdict, judge_logs

_FIRST_THERE = "promote it there first"


def prepare(run: TopologyRun) -> None:
    """Three clusters with their topics, and producers on them."""
    with run.view.step("Start three clusters") as step:
        clusters = run.clusters.values()
        run.at_once([partial(start, cluster) for cluster in clusters], "the clusters to start", CLUSTER_UP_S + 10)
        for at, topic in sorted({(way.source, way.topic) for way in WAYS} - {("b", "orders")}):
            create_topic(run.clusters[at].bootstrap, topic, run.settings.partitions)
        step.note = ", ".join(f"{name}: Kafka {run.settings.kafka(name)}" for name in run.clusters)
    with run.view.step("Start five producers on the clusters"):
        for writer in WRITERS:
            run.client(writer, moved=False).start(run.clusters[writer.home].bootstrap, Side.SOURCE)
        run.until(
            lambda: all(run.client(writer, moved=False).acknowledged for writer in WRITERS),
            "every producer's first record",
            CLIENT_STARTED_S,
        )


def link(run: TopologyRun) -> None:
    """A gateway before each cluster, five links, five mirrors."""
    with run.view.step("Start a gateway before each cluster"):
        run.start_gateways()
        for gateway in run.gateways.values():
            run.until(gateway.healthy, "the gateways to be healthy", GATEWAY_UP_S)
    with run.view.step("Mirror orders a → b → c, stock b → a, clicks a → c and b → c"):
        for way in WAYS:
            _link(run, way, run.gateways["b"].bootstrap if way is SECOND else run.clusters[way.source].bootstrap)
            run.command(way.target, "mirror", "create", way.mirror, "--link", way.link)
            run.until(partial(_is_level, run, way), f"{way.mirror} to be level", STATES_S)


def move(run: TopologyRun) -> None:
    """Restart the producers onto the gateways of where their topics go."""
    with run.view.step("Restart each producer onto the gateway of its target"):
        for writer in WRITERS:
            old, new = (run.client(writer, moved=moved) for moved in (False, True))
            old.ask_to_stop()
            run.until(old.ended, f"{old.part.name} to stop", CLIENT_STOPPED_S)
            new.start(run.gateways[writer.way.target].bootstrap, Side.TARGET)
            run.until(partial(_goes_on, new), f"{new.part.name} to go on", CLIENT_STARTED_S)
    _traffic(run, "everything is mirrored")


def loops(run: TopologyRun) -> None:
    """Whatever would bring records back to the cluster that they are from is refused when it is asked for."""
    with run.view.step("Ask for loops, which are refused") as step:
        for way in LOOPS:
            _link(run, way, run.clusters[way.source].bootstrap, "--set", f"link.client.topic.filters={NOT_WRITTEN}")
            said = run.refusal(way.target, "mirror", "create", way.mirror, "--link", way.link)
            if "would be a loop" in " ".join(said.split()):
                run.refused[way.link] = said
        step.note = f"{len(run.refused)} of {len(LOOPS)}"


def promote(run: TopologyRun) -> None:
    """From the top of the chain down; the other order is refused. The other ones as they like."""
    with run.view.step("Ask for the second link of the chain first, which is refused"):
        said = run.refusal(SECOND.target, "mirror", "promote", SECOND.mirror, "--link", SECOND.link, "--yes")
        if _FIRST_THERE not in " ".join(said.split()):
            raise DemoError("the second link of the chain was refused for another reason", said)
    for way in (FIRST, BACK, WEST, EAST):
        _promote(run, way)
    _traffic(run, "the chain's first link is promoted")
    with run.view.step("Stop the producer in the middle of the chain: what it wrote goes on to the end"):
        _stop(run, [run.client(_writer_of(FIRST), moved=True)])
    _promote(run, SECOND)
    _traffic(run, "everything is promoted")


def judge(run: TopologyRun) -> TopologyVerdict:
    """Stop everybody, read all clusters, compare."""
    with run.view.step("Stop the producers"):
        _stop(run, [client for client in run.fleet.producers if client.running])
    with run.view.step("Read all clusters back") as step:
        logs = run.read(*sorted({(way.source, way.topic) for way in WAYS} | {(way.target, way.mirror) for way in WAYS}))
        step.note = ", ".join(f"{topic} on {at}: {len(log):,}" for (at, topic), log in logs.items())
    with run.view.step("Stop the gateways and the clusters"):
        run.stop_gateways()
        run.at_once([cluster.down for cluster in run.clusters.values()], "the clusters to stop", 60.0)
    with run.view.step("Compare the logs"):
        return judge_logs(run.fleet.history, logs, loops_refused=len(run.refused))


def _link(run: TopologyRun, way: Way, bootstrap: str, *more: str) -> None:
    prefix = ("--set", f"link.prefix={way.prefix}") if way.prefix else ()
    run.command(way.target, "link", "create", way.link, "--bootstrap", bootstrap, *prefix, *more)


def _is_level(run: TopologyRun, way: Way) -> bool:
    _, lag = run.status(way)
    return lag is not None and lag <= 100


def _promote(run: TopologyRun, way: Way) -> None:
    with run.view.step(f"Promote {way.mirror} on {way.target}"):
        run.command(way.target, "mirror", "promote", way.mirror, "--link", way.link, "--yes", "--wait",
                    timeout_s=TOPIC_PROMOTED_S)  # fmt: skip
        run.until(lambda: run.status(way)[0] == "STOPPED", f"{way.mirror} to be STOPPED", STATES_S)


def _writer_of(way: Way) -> Writer:
    return next(writer for writer in WRITERS if writer.way is way)


def _goes_on(client: Client) -> bool:
    return client.acknowledged > 0


def _traffic(run: TopologyRun, while_: str) -> None:
    """Some seconds of it, in which every producer must be acknowledged."""
    with run.view.step(f"Traffic while {while_}"):
        live = [client for client in run.fleet.producers if client.running and not client.stopping]
        before = {client.part.name: client.acknowledged for client in live}
        run.pause(run.settings.traffic_s)
        all_went_on: Callable[[], bool] = lambda: all(c.acknowledged > before[c.part.name] for c in live)  # noqa: E731
        run.until(all_went_on, "every producer to be acknowledged", CLIENT_STARTED_S)


def _stop(run: TopologyRun, clients: list[Client]) -> None:
    for client in clients:
        client.ask_to_stop()
    for client in clients:
        run.until(client.ended, f"{client.part.name} to stop", CLIENT_STOPPED_S)
