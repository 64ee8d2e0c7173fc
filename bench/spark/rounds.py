"""One round: a backlog, copied by MirrorMaker 2 and by the catch-up job, each to a topic of its own, then audited.

A job's time and CPU are split into what it takes with next to nothing to do (measured in the same round: the start of
Python and the JVM, code generation, connections) and the rest, which is what a gigabyte costs.
"""

from __future__ import annotations

from typing import Final

from bench.errors import BenchError
from bench.loads.produce import RECORD_BYTES, write_1m, write_16k
from bench.proc import Meter
from bench.spark.job import run_job
from bench.spark.lab import Lab
from bench.spark.settings import COPIED_S, LINK, SMALL
from bench.stats import Sample, Samples
from bench.waiting import wait_until

COPIES: Final = {"copy_16k": ("jobs-16k", write_16k), "copy_1m": ("jobs-1m", write_1m)}
CORES_OF_LOCAL: Final = 2


class Rounds:
    """Runs rounds and keeps their samples."""

    def __init__(self, lab: Lab, samples: Samples) -> None:
        self._lab = lab
        self._samples = samples

    def run(self, load: str, number: int) -> None:
        """One round of `load`. Raises BenchError."""
        lab, (topic, write) = self._lab, COPIES[load]
        records = lab.settings.size_mb * 1_000_000 // RECORD_BYTES
        before = lab.on_source.records(topic)
        write(lab.source.bootstrap, topic, records)
        wanted = lab.on_source.records(topic)
        if wanted - before != records:
            raise BenchError(f"{wanted - before} records were written, not {records}")
        gigabytes = records * RECORD_BYTES / 1e9
        turns = [self._mirror_maker, self._catch_up]
        for turn in turns if number % 2 else reversed(turns):
            turn(load, number, topic, wanted, gigabytes)
        if load == "copy_16k":
            self._audit(number, topic, gigabytes)
        lab.empty(topic)

    def _mirror_maker(self, load: str, number: int, topic: str, wanted: int, gigabytes: float) -> None:
        lab = self._lab
        copy = lab.mirror_maker.copy_of(topic)
        before = lab.on_target.records(copy)
        meter = Meter(lab.mirror_maker.pid)
        lab.mirror_maker.resume()
        try:
            first = wait_until(lambda: (found := lab.on_target.records(copy)) > before and found, COPIED_S, copy)
            at_first = meter.wall_s
            lab.on_target.wait_for_records(copy, wanted, COPIED_S)
            rate = (wanted - first) * RECORD_BYTES / 1e6 / (meter.wall_s - at_first)
            metrics = {"mb_per_s": rate, **meter.per(gigabytes, "cpu_s_per_gb")}
        finally:
            lab.mirror_maker.pause()
        self._add(load, number, "mm2", metrics)

    def _catch_up(self, load: str, number: int, topic: str, wanted: int, gigabytes: float) -> None:
        lab = self._lab
        arguments = ("--link", LINK, *lab.api, "--master", lab.settings.master)
        write_16k(lab.source.bootstrap, SMALL, 100)
        small = run_job("catch-up-small", lab.folder, "catch-up", SMALL, *arguments)
        before = lab.on_target.records(topic)

        def watch(marks: dict[str, float], at: float) -> None:
            have = lab.on_target.records(topic)
            if have > before and "first_s" not in marks:
                marks |= {"first_s": at, "first": have}
            if have >= wanted and "last_s" not in marks:
                marks["last_s"] = at

        done = run_job("catch-up", lab.folder, "catch-up", topic, *arguments, watch=watch)
        if lab.on_target.records(topic) != wanted:
            raise BenchError(f"{topic}: {lab.on_target.records(topic)} records on the target, not {wanted}")
        marks = done.marks
        metrics = {
            "cpu_s_per_gb": (done.cpu_s - small.cpu_s) / gigabytes,
            "all_cpu_s_per_gb": done.cpu_s / gigabytes,
            "start_cpu_s": small.cpu_s,
            "start_s": marks.get("first_s", 0.0),
            "wall_s": done.wall_s,
        }
        if marks.get("last_s", 0.0) > marks.get("first_s", 0.0):
            took = marks["last_s"] - marks["first_s"]
            metrics["mb_per_s"] = (wanted - marks["first"]) * RECORD_BYTES / 1e6 / took
        self._add(load, number, "catch-up", metrics)

    def _audit(self, number: int, topic: str, gigabytes: float) -> None:
        lab = self._lab
        arguments = ("--link", LINK, *lab.api, "--master", lab.settings.master)
        small = run_job("audit-small", lab.folder, "audit", SMALL, *arguments)
        done = run_job("audit", lab.folder, "audit", topic, *arguments)
        if done.report["verdict"] != "IDENTICAL":
            raise BenchError(f"the audit of {topic} says {done.report['verdict']}")
        cpu_s = done.cpu_s - small.cpu_s
        compared_s = done.report["speed"]["seconds_batches"] - small.report["speed"]["seconds_batches"]
        metrics = {
            "mb_per_cpu_s": gigabytes * 1000 / cpu_s,
            "log_mb_per_cpu_s": 2 * gigabytes * 1000 / cpu_s,
            "mb_per_s_per_core": gigabytes * 1000 / max(0.001, compared_s) / CORES_OF_LOCAL,
            "cpu_s_per_gb": cpu_s / gigabytes,
            "start_cpu_s": small.cpu_s,
            "wall_s": done.wall_s,
        }
        self._add("audit", number, "audit", metrics)

    def _add(self, load: str, number: int, contestant: str, metrics: dict[str, float]) -> None:
        self._samples.add(Sample(load, number, contestant, metrics))
