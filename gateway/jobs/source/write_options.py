"""The options of the `kafka-batches` writer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.jobs.attempts.wire import Address
from gateway.jobs.kafka import PREFIX
from gateway.jobs.source.mirrors import MirrorSpec, from_json
from gateway.jobs.source.options import check_properties

SOURCE_PREFIX: Final = "source." + PREFIX
MIRRORS: Final = "mirrors"
REPORT: Final = "report"
THROTTLE: Final = "throttleBytesPerSecond"
ATTEMPTS: Final = "attemptsToken"
"""Spark hides the values of options that are named so."""

_OF_SPARK: Final = ("checkpointlocation", "queryname")  # a streaming query's own options come along


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Where to append, and as whom.

    Attributes:
        target: Kafka client properties of the cluster that is written.
        source: of the cluster that the batches come from, to hold the target's log against the source's; empty when
            they do not come from a cluster.
        mirrors: by source topic.
        throttle_bytes_per_s: of each task that copies ranges; 0 for none.
        attempts: where tasks ask whether they may append (`gateway.jobs.attempts`); None for writes that Spark alone
            keeps apart.
        report: a file on the driver that gets the report as JSON when all tasks are done; "" for none.
    """

    target: Mapping[str, str]
    mirrors: Mapping[str, MirrorSpec]
    source: Mapping[str, str]
    throttle_bytes_per_s: int = 0
    attempts: Address | None = None
    report: str = ""


def parse_write(options: Mapping[str, str]) -> WriteOptions:
    """Read the options of the writer, whose names are taken in any case.

    Raises:
        ValueError: one line that names an unknown option, a bad value, or one that is missing.
    """
    given = {name.lower(): value for name, value in options.items()}
    target = {name[len(PREFIX) :]: value for name, value in given.items() if name.startswith(PREFIX)}
    source = {name[len(SOURCE_PREFIX) :]: value for name, value in given.items() if name.startswith(SOURCE_PREFIX)}
    others = [name for name in given if not name.startswith((PREFIX, SOURCE_PREFIX))]
    unknown = [name for name in others if name not in (MIRRORS, REPORT, THROTTLE.lower(), ATTEMPTS.lower(), *_OF_SPARK)]
    if unknown:
        known = f"{MIRRORS}, {REPORT}, {THROTTLE}, {PREFIX}* and {SOURCE_PREFIX}*"
        raise ValueError(f"{unknown[0]}: unknown option; known: {known}")
    check_properties(target, PREFIX)
    if source:
        check_properties(source, SOURCE_PREFIX)
    if MIRRORS not in given:
        raise ValueError(f"{MIRRORS}: missing; it says as which mirror to write")
    try:
        mirrors = from_json(given[MIRRORS])
    except ValueError as exc:
        raise ValueError(f"{MIRRORS}: {exc}") from None
    throttle = given.get(THROTTLE.lower(), "0")
    if not throttle.isdecimal():
        raise ValueError(f"{THROTTLE}: {throttle!r} is not a whole number")
    return WriteOptions(
        target=target,
        source=source,
        mirrors=mirrors,
        throttle_bytes_per_s=int(throttle),
        attempts=Address.parse(given[ATTEMPTS.lower()]) if ATTEMPTS.lower() in given else None,
        report=given.get(REPORT, ""),
    )
