"""Java command lines over the brokers' jars: brokers, Kafka's own tools, and test clients."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from gateway.devcluster.jars import brokers_folder, class_path, ensure_jars
from gateway.devcluster.properties import log_options
from gateway.devcluster.spec import DevClusterError


def java_command(
    kafka_version: str,
    main_class: str,
    *args: str,
    extra_class_path: Sequence[Path] = (),
    heap_mb: int = 128,
) -> list[str]:
    """Command that runs a class from the jars of a Kafka version (resolved first if need be).

    Kafka's tools log warnings to stderr and keep stdout for their output. To run one source file, give its path as
    `main_class` (the JDK compiles it on the fly).

    Args:
        kafka_version: one of KAFKA_VERSIONS.
        main_class: such as `org.apache.kafka.tools.consumer.ConsoleConsumer`.
        extra_class_path: folders or jars that come before Kafka's own.
        heap_mb: largest heap, in MiB.

    Raises:
        DevClusterError: no Java, or the jars cannot be resolved.
    """
    ensure_jars(kafka_version)
    classes = os.pathsep.join([*map(str, extra_class_path), class_path(kafka_version)])
    options = [*jvm_options(heap_mb), *log_options(brokers_folder(kafka_version))]
    return [java_binary(), *options, "-cp", classes, main_class, *args]


def jvm_options(heap_mb: int) -> list[str]:
    """Options for a JVM that starts fast, stays small and lives for minutes: serial collector, first compiler only."""
    return [
        f"-Xms{min(heap_mb, 128)}m",
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Djava.awt.headless=true",
    ]


def long_lived_jvm_options(heap_mb: int) -> list[str]:
    """The options of Kafka's own start script: both compilers and G1."""
    return [
        "-server",
        f"-Xms{min(heap_mb, 256)}m",
        f"-Xmx{heap_mb}m",
        "-XX:+UseG1GC",
        "-XX:MaxGCPauseMillis=20",
        "-XX:InitiatingHeapOccupancyPercent=35",
        "-Djava.awt.headless=true",
    ]


def java_binary() -> str:
    """Path of the Java launcher: $JAVA_HOME first, then $PATH.

    Raises:
        DevClusterError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise DevClusterError("a JDK of version 17 or newer is needed (Debian: apt install openjdk-17-jdk-headless)")
    return found
