"""Formatting of a node's storage with Kafka's own tool, so that each version gets the features it finalises."""

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gateway.devcluster.errors import DevClusterError
from gateway.devcluster.node import NodeProcess

_FORMAT_TIMEOUT_S: Final = 180


def format_storage(processes: Iterable[NodeProcess]) -> None:
    """Format the storage of each node that has none yet, all at once.

    Raises:
        DevClusterError: the tool failed; the message names its log.
    """
    running: list[tuple[NodeProcess, Path, subprocess.Popen[bytes]]] = []
    for process in processes:
        if (process.data / "meta.properties").exists():
            continue
        log = process.log.with_name(f"format-{process.node.node_id}.log")
        arguments = ["format", "--cluster-id", process.spec.cluster_id, "--config", str(process.config)]
        with log.open("wb") as output:
            command = process.command("kafka.tools.StorageTool", *arguments)
            started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        running.append((process, log, started))
    for process, log, started in running:
        try:
            code = started.wait(_FORMAT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
            code = -1
        if code != 0:
            raise DevClusterError(f"the storage of node {process.node.node_id} could not be formatted: see {log}")
