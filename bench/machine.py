"""What a figure depends on beside the code: the machine, and the versions of everything that took part."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import confluent_kafka

from bench.clients.java_tools import KAFKA
from bench.contestants.haproxy import haproxy_version
from bench.lab import SOURCE_KAFKA, TARGET_KAFKA
from bench.process import ROOT
from gateway.devcluster.java import java_binary


def machine() -> dict[str, Any]:
    """Processor, cores, memory, kernel."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "kernel": f"{platform.system()} {platform.release()}",
    }


def versions() -> dict[str, str]:
    """Of the gateway, and of what it was measured with."""
    return {
        "lockgate": version("lockgate"),
        "commit": _output("git", "describe", "--always", "--dirty"),
        "python": platform.python_version(),
        "uvloop": version("uvloop"),
        "librdkafka": confluent_kafka.libversion()[0],
        "haproxy": haproxy_version(),
        "java": _output(java_binary(), "--version").splitlines()[0],
        "source_kafka": SOURCE_KAFKA,
        "target_kafka": TARGET_KAFKA,
        "kafka_tools": KAFKA,
        "mm2": KAFKA,
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"
