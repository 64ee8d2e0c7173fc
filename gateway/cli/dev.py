"""`lockgate dev`: real Kafka clusters on this machine, to try a migration or to test one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.commands import ApiTyper
from gateway.cli.output import col, table
from gateway.cli.progress import patience
from gateway.devcluster import (
    KAFKA_VERSIONS,
    ClusterStatus,
    DevCluster,
    DevClusterError,
    ensure_class_archive,
    ensure_jars,
)
from gateway.devcluster.jars import clusters_folder

app = ApiTyper(help="Real Kafka clusters on this machine, for trials and tests.", no_args_is_help=True)
cluster_app = ApiTyper(help="Start, stop and show a cluster.", no_args_is_help=True)
app.add_typer(cluster_app, name="cluster")


_COLUMNS = (
    col("Cluster"),
    col("Node"),
    col("State"),
    col("Port"),
    col("Kafka", 1),
    col("PID", 2),
    col("Log", note=True),
)


class Output(StrEnum):
    """How `status` prints."""

    TABLE = "table"
    JSON = "json"


_DEFAULT_FOLDER = "clusters in $LOCKGATE_DEV_HOME, in build of a checkout, or in ~/.cache/lockgate"
Name = Annotated[str, typer.Argument(help="Name of the cluster, which is also the name of its folder.")]
Folder = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIR", show_default=_DEFAULT_FOLDER, help="Folder that holds the clusters' folders."),
]


@cluster_app.command("up")
def up(
    name: Name,
    kafka: Annotated[
        str | None, typer.Option(show_default=KAFKA_VERSIONS[0], help=f"Kafka version: {', '.join(KAFKA_VERSIONS)}.")
    ] = None,
    brokers: Annotated[int | None, typer.Option(show_default="1", help="Number of brokers: 1 or 3.")] = None,
    port: Annotated[int | None, typer.Option(show_default="free ports", help="First port.")] = None,
    directory: Folder = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="KEY=VALUE", help="Broker property; may be repeated.")
    ] = None,
    heap_mb: Annotated[int, typer.Option(help="Largest heap of each broker, in MiB.")] = 256,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the brokers.")] = 60.0,
) -> None:
    """Start a cluster and print its bootstrap.servers; one that was stopped goes on with its data and ports."""
    with _one_line_errors():
        try:
            cluster = DevCluster.open(name, parent=directory, warn=_warn)
        except DevClusterError:
            cluster = DevCluster.create(
                name,
                kafka=kafka or KAFKA_VERSIONS[0],
                brokers=brokers or 1,
                port=port,
                parent=directory,
                properties=_key_values(properties or []),
                heap_mb=heap_mb,
                warn=_warn,
            )
        else:
            _check_same(cluster, kafka, brokers, port, properties)
        with patience(f"cluster {name} is starting"):
            cluster.up(timeout)
        typer.echo(f"bootstrap.servers={cluster.bootstrap}")


@cluster_app.command("down")
def down(
    name: Name,
    directory: Folder = None,
    delete: Annotated[bool, typer.Option("--delete", help="Remove the folder, with data and logs, as well.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait before the brokers are killed.")] = 30.0,
) -> None:
    """Stop a cluster. Its folder stays, so that `up` goes on where it was."""
    with _one_line_errors():
        cluster = DevCluster.open(name, parent=directory, warn=_warn)
        with patience(f"cluster {name} is stopping"):
            cluster.down(timeout)
        if delete:
            cluster.delete()
        typer.echo(f"cluster {name} is down")


@cluster_app.command("status")
def status(
    name: Annotated[str | None, typer.Argument(help="Name of the cluster; all when left out.")] = None,
    directory: Folder = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="Form of the output.")] = Output.TABLE,
) -> None:
    """Show version, processes, ports and whether the brokers answer."""
    with _one_line_errors():
        names = [name] if name is not None else _names(directory)
        found = [DevCluster.open(each, parent=directory).status() for each in names]
    if output is Output.JSON:
        values = [each.to_dict() for each in found]
        typer.echo(json.dumps(values[0] if name is not None else values, indent=2))
    else:
        table(_COLUMNS, _rows(found), empty="no clusters", label=2)


@app.command("jars")
def jars(
    versions: Annotated[list[str] | None, typer.Argument(help="Kafka versions; all known ones when left out.")] = None,
) -> None:
    """Fetch the brokers' jars (with Maven) unless they are there, and make what brokers start faster with."""
    with _one_line_errors():
        for version in versions or KAFKA_VERSIONS:
            with patience(f"Maven fetches the jars of Kafka {version}"):
                folder = ensure_jars(version)
            typer.echo(str(folder))
            ensure_class_archive(version, lambda line: typer.echo(line, err=True))


def _check_same(
    cluster: DevCluster, kafka: str | None, brokers: int | None, port: int | None, properties: list[str] | None
) -> None:
    """A cluster keeps its version, size, ports and properties for life: refuse an `up` that asks for others."""
    spec = cluster.spec
    differs = {
        "--kafka": kafka is not None and kafka != spec.kafka_version,
        "--brokers": brokers is not None and brokers != len(spec.nodes),
        "--port": port is not None and port != spec.nodes[0].client_port,
        "--property": properties is not None and _key_values(properties) != dict(spec.properties),
    }
    wrong = [option for option, differing in differs.items() if differing]
    if wrong:
        raise DevClusterError(
            f"cluster {spec.name} exists with another {wrong[0]}: remove it first (lockgate dev cluster down --delete)"
        )


def _key_values(items: list[str]) -> dict[str, str]:
    pairs = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not key or not equals:
            raise DevClusterError(f"--property takes KEY=VALUE, not {item!r}")
        pairs[key.strip()] = value.strip()
    return pairs


def _names(directory: Path | None) -> list[str]:
    parent = directory or clusters_folder()
    return sorted(path.parent.name for path in parent.glob("*/cluster.json"))


def _rows(found: list[ClusterStatus]) -> Iterator[list[str]]:
    for cluster in found:
        for node in cluster.nodes:
            state = "up" if node.up else ("starting" if node.pid is not None else "down")
            pid, port = "" if node.pid is None else str(node.pid), str(node.client_port)
            yield [cluster.name, str(node.node_id), state, port, cluster.kafka_version, pid, node.log]


def _warn(message: str) -> None:
    typer.echo(f"warning: {message}", err=True)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except DevClusterError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
