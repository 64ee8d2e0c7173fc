"""What the commands of `lockgate job` share: clusters, the session, reports, exit codes.

0: done, and all is well. 1: done, and the report says what is not well; or a cluster refused. 2: wrong usage or input.
3: a cluster cannot be reached. An audit has more of them (`gateway.jobs.audit`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from gateway.cli.api import REFUSED, UNREACHABLE, USAGE, fail
from gateway.cli.properties import client_properties
from gateway.jobs.errors import JobFailed, reason
from gateway.jobs.session import build_session
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.connection.errors import ClusterUnavailable, NetError
from protocol.errors import ProtocolError

Master = Annotated[
    str, typer.Option("--master", help="Spark master: local[*] (the default), spark://host:port, yarn, k8s://…")
]
PyFiles = Annotated[str, typer.Option("--py-files", help="This project's wheel, for executors that lack it.")]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's own; may be repeated.")
]
Report = Annotated[Path | None, typer.Option("--report", metavar="FILE", help="Write the report as JSON to this file.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do not do it.")]
Source = Annotated[
    str, typer.Option("--source", metavar="HOST:PORT|FILE", help="Source cluster, or a file of client properties.")
]
Target = Annotated[
    str, typer.Option("--target", metavar="HOST:PORT|FILE", help="Target cluster, or a file of client properties.")
]

LinkedSource = Annotated[
    str, typer.Option("--source", metavar="HOST:PORT|FILE", help="Source cluster; wins over what --link tells.")
]
LinkedTarget = Annotated[
    str, typer.Option("--target", metavar="HOST:PORT|FILE", help="Target cluster; wins over what --link tells.")
]

DEFAULT_MASTER = ""  # what spark-submit was told, or else local[*]

_SECRET: Final = ("password", "secret", "token")
"""Parts of the names of Spark's settings that hold secrets."""


def cluster(text: str) -> dict[str, str]:
    """Client properties of a whole cluster; ends the command with exit code 2 when they are bad."""
    properties = client_properties(text)
    try:
        ClusterConfig.from_client_properties(properties)
    except ValueError as exc:
        fail(f"{text}: {exc}", USAGE)
    return properties


@contextmanager
def job(
    name: str, master: str, py_files: str, conf: list[str] | None, *, refused: int = REFUSED
) -> Iterator[SparkSession]:
    """A session for the time of the block; its errors become one line and an exit code, `refused` for most."""
    spark = build_session(f"lockgate {name}", master=master, py_files=py_files, configs=settings_of(conf))
    try:
        with one_line_errors(refused):
            yield spark
    finally:
        spark.stop()


@contextmanager
def one_line_errors(refused: int = REFUSED) -> Iterator[None]:
    """Errors of clusters, of input and of tasks as one line on stderr."""
    try:
        yield
    except JobFailed as exc:
        fail(str(exc), refused)
    except ClusterUnavailable as exc:
        fail(str(exc), UNREACHABLE)
    except (NetError, ProtocolError) as exc:
        fail(str(exc), refused)
    except ValueError as exc:
        fail(str(exc), USAGE)
    except (PySparkException, Py4JError) as exc:
        fail(reason(exc), refused)


def write_report(path: Path | None, report: Mapping[str, Any]) -> str:
    """Write a report as JSON if a file was named; the text either way."""
    text = json.dumps(report, indent=2, ensure_ascii=False, default=str) + "\n"
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return text


def say(message: str) -> None:
    """One line of progress, on stderr."""
    typer.echo(message, err=True)


def settings_of(conf: list[str] | None) -> dict[str, str]:
    """Spark's settings, from `--conf`; ends the command with exit code 2 when one is no pair, or a secret."""
    return dict(_key_value(item) for item in conf or [])


def _key_value(item: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not equals:
        fail(f"--conf takes KEY=VALUE, not {item!r}", USAGE)
    if is_secret(key, value):
        fail(
            f"--conf {key}: every user of this machine can read a secret on a command line; put it into "
            "spark-defaults.conf in the folder that SPARK_CONF_DIR names",
            USAGE,
        )
    return key, value


def is_secret(key: str, value: str) -> bool:
    """Whether a setting of Spark is a secret, by its name; a file, or a switch, is none."""
    name = key.lower()
    told = any(word in name for word in _SECRET)
    return told and not name.endswith("file") and value.lower() not in ("", "true", "false")
