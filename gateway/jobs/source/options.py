"""The options of the data sources, under the names of Spark's own Kafka source.

Those options of Spark's own source that mean nothing here are passed over with a warning; those that cannot be had are
refused with the reason. Names are in lower case, as Spark hands them on.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.jobs.kafka import PREFIX
from gateway.kafka.connection.config import ClusterConfig
from gateway.kafka.logs.range_reader import FETCH_BYTES
from gateway.kafka.offsets import EARLIEST, LATEST
from gateway.kafka.topic_partition import TopicPartition

_log = logging.getLogger(__name__)

_NO_GROUP: Final = "nothing is read as a member of a group"
_OWN_PATIENCE: Final = "reading goes on through faults for two minutes by itself"

_PASSED_OVER: Final[Mapping[str, str]] = {
    "groupidprefix": _NO_GROUP,
    "kafka.group.id": _NO_GROUP,
    "kafkaconsumer.polltimeoutms": _OWN_PATIENCE,
    "fetchoffset.numretries": _OWN_PATIENCE,
    "fetchoffset.retryintervalms": _OWN_PATIENCE,
    "kafka.fetch.max.bytes": "a task reads one partition at a time; kafka.max.partition.fetch.bytes limits a fetch",
    "kafka.max.poll.records": "rows are not polled one by one",
    "kafka.session.timeout.ms": _NO_GROUP,
    "kafka.heartbeat.interval.ms": _NO_GROUP,
}

_SPARKS: Final = "Spark's own source refuses it, too"
_KEY_STORE: Final = "Java key stores are not read; give PEM: kafka.ssl.ca.location, kafka.ssl.certificate.location"

_REFUSED: Final[Mapping[str, str]] = {
    "kafka.auto.offset.reset": f"startingOffsets says where to begin; {_SPARKS}",
    "kafka.key.deserializer": f"keys are bytes; {_SPARKS}",
    "kafka.value.deserializer": f"values are bytes; {_SPARKS}",
    "kafka.enable.auto.commit": f"offsets are in the query's checkpoint; {_SPARKS}",
    "kafka.interceptor.classes": _SPARKS,
    "kafka.ssl.truststore.location": _KEY_STORE,
    "kafka.ssl.truststore.password": _KEY_STORE,
    "kafka.ssl.truststore.type": _KEY_STORE,
    "kafka.ssl.keystore.location": _KEY_STORE,
    "kafka.ssl.keystore.password": _KEY_STORE,
    "kafka.ssl.keystore.type": _KEY_STORE,
}


def without_sparks_own(given: Mapping[str, str]) -> dict[str, str]:
    """The options that are left to be read.

    Raises:
        ValueError: one that is refused, with the reason.
    """
    for name in given:
        if name in _REFUSED:
            raise ValueError(f"{name}: not here: {_REFUSED[name]}")
        if name in _PASSED_OVER:
            _log.warning("option %s has no effect: %s", name, _PASSED_OVER[name])
    return {name: value for name, value in given.items() if name not in _PASSED_OVER}


EARLIEST_TEXT: Final = "earliest"
LATEST_TEXT: Final = "latest"

_WHO: Final = ("subscribe", "subscribePattern", "assign")
_READING: Final = (
    *_WHO,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "maxBytesPerTrigger",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxRecordsPerPartition",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "throttleBytesPerSecond",
    "tasks",
)
_UNITS_S: Final = {"": 0.001, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_ISOLATION: Final = "isolation.level"
_FETCH_BYTES: Final = "max.partition.fetch.bytes"


@dataclass(frozen=True, slots=True)
class Position:
    """An offset per partition, or EARLIEST (-2), LATEST (-1) for those that are not named."""

    default: int
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)

    def of(self, partition: TopicPartition) -> int:
        """The offset to resolve for one partition."""
        return self.offsets.get(partition, self.default)


@dataclass(frozen=True, slots=True)
class Times:
    """A time per partition, in milliseconds since the epoch. `default`: of those that are not named; None for none."""

    default: int | None = None
    times: Mapping[TopicPartition, int] = field(default_factory=dict)

    def of(self, partition: TopicPartition) -> int | None:
        """The time of one partition."""
        return self.times.get(partition, self.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What to read, from where to where, and how.

    Attributes:
        properties: Kafka client properties.
        topics, assigned, pattern: one of subscribe, assign, subscribePattern.
        starting: None for the default: earliest for a batch query, latest for a stream.
        starting_times, ending_times: win over `starting` and `ending`. `starting_time`, `ending_time`: over those.
        or_latest: where no record is as young as a starting time, begin at the end; else that is an error.
        max_bytes_per_trigger: of one micro-batch, about; 0 for no limit.
        max_offsets_per_trigger: of one micro-batch; 0 for no limit.
        min_offsets_per_trigger: a micro-batch waits for so many; 0 for not waiting.
        max_trigger_delay_s: for how long it waits at most.
        max_records_per_partition: of one task; 0 for no limit.
        fail_on_data_loss: offsets that are gone and topics created anew end the query; else they are skipped.
        headers: the column is there.
        min_partitions: cut ranges until there are so many; 0 for one range per partition.
        throttle_bytes_per_s: of each task; 0 for none.
        fetch_bytes: of one fetch.
        tasks: kafka-ranges only: put the ranges into about so many tasks; 0 for one range per task.
    """

    properties: Mapping[str, str]
    topics: tuple[str, ...] = ()
    assigned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pattern: str = ""
    starting: Position | None = None
    ending: Position = Position(LATEST)
    starting_times: Times | None = None
    starting_time: Times | None = None
    ending_times: Times | None = None
    ending_time: Times | None = None
    or_latest: bool = False
    max_bytes_per_trigger: int = 0
    max_offsets_per_trigger: int = 0
    min_offsets_per_trigger: int = 0
    max_trigger_delay_s: float = 900.0
    max_records_per_partition: int = 0
    fail_on_data_loss: bool = True
    headers: bool = True
    min_partitions: int = 0
    throttle_bytes_per_s: int = 0
    read_committed: bool = True
    fetch_bytes: int = FETCH_BYTES
    tasks: int = 0


def parse(options: Mapping[str, str]) -> SourceOptions:
    """Read the options of a reader, whose names are taken in any case.

    Raises:
        ValueError: one line that names an unknown option, a bad value, or one that is missing.
    """
    given = without_sparks_own({name.lower(): value for name, value in options.items()})
    kafka = {name[len(PREFIX) :]: value for name, value in given.items() if name.startswith(PREFIX)}
    known = {name.lower(): name for name in _READING}
    unknown = [name for name in given if not name.startswith(PREFIX) and name not in known]
    if unknown:
        raise ValueError(f"{unknown[0]}: unknown option; known: {', '.join(_READING)} and {PREFIX}*")
    named = {known[name]: value for name, value in given.items() if name in known}
    values: dict[str, Any] = {}
    for name, value in named.items():
        attribute, read = _READERS[name]
        try:
            values[attribute] = read(value)
        except (ValueError, TypeError, AttributeError) as exc:
            raise ValueError(f"{name}: {exc}") from None
    if sum(name in named for name in _WHO) != 1:
        raise ValueError(f"name what to read by one of {', '.join(_WHO)}")
    _check_limits(values)
    if "assigned" in values:
        values["topics"] = tuple(values["assigned"])
    if _ISOLATION in kafka:
        values["read_committed"] = _isolation(kafka.pop(_ISOLATION))
    if _FETCH_BYTES in kafka:
        values["fetch_bytes"] = _positive(kafka.pop(_FETCH_BYTES))
    check_properties(kafka, PREFIX)
    return SourceOptions(properties=kafka, **values)


def _check_limits(values: Mapping[str, Any]) -> None:
    most = values.get("max_offsets_per_trigger", 0)
    if most and values.get("min_offsets_per_trigger", 0) > most:
        raise ValueError("minOffsetsPerTrigger: it must not be above maxOffsetsPerTrigger")


def check_properties(properties: Mapping[str, str], prefix: str) -> None:
    """Check client properties. Raises ValueError that names the option, which begins with `prefix`."""
    try:
        ClusterConfig.from_client_properties(properties)
    except ValueError as exc:
        raise ValueError(f"{prefix}{exc}") from None


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise ValueError("no topic is named")
    return names


def _assignment(text: str) -> dict[str, tuple[int, ...]]:
    value = json.loads(text)
    if not isinstance(value, dict) or not value:
        raise ValueError('expected {"topic": [0, 1, …], …}')
    return {topic: tuple(int(index) for index in indexes) for topic, indexes in value.items()}


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as exc:
        raise ValueError(f"{text!r} is no regular expression: {exc}") from None
    return text


def _starting(text: str) -> Position:
    return _position(text, EARLIEST)


def _ending(text: str) -> Position:
    return _position(text, LATEST)


def _position(text: str, default: int) -> Position:
    """`earliest`, `latest`, or {"topic": {"0": 12, "1": -2}} with -2 for earliest and -1 for latest."""
    if text.strip().lower() in (EARLIEST_TEXT, LATEST_TEXT):
        return Position(EARLIEST if text.strip().lower() == EARLIEST_TEXT else LATEST)
    try:
        value = json.loads(text)
        offsets = {(topic, int(index)): int(at) for topic, of in value.items() for index, at in of.items()}
    except (ValueError, AttributeError):
        raise ValueError(f'{text!r} is not earliest, latest or {{"topic": {{"0": 12}}}}') from None
    bad = [at for at in offsets.values() if at < EARLIEST]
    if bad:
        raise ValueError(f"{bad[0]} is no offset")
    return Position(default, offsets)


def _times(text: str) -> Times:
    """{"topic": {"0": 1700000000000}}."""
    try:
        value = json.loads(text)
        times = {(topic, int(index)): int(at) for topic, of in value.items() for index, at in of.items()}
    except (ValueError, AttributeError):
        raise ValueError(f'{text!r} is not {{"topic": {{"0": 1700000000000}}}}') from None
    bad = [at for at in times.values() if at < 0]
    if bad:
        raise ValueError(f"{bad[0]} is no time in milliseconds")
    return Times(None, times)


def _time(text: str) -> Times:
    return Times(_natural(text))


def _strategy(text: str) -> bool:
    if text.lower() not in ("error", "latest"):
        raise ValueError(f"{text!r} is not error or latest")
    return text.lower() == "latest"


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is not true or false")
    return text.lower() == "true"


def _natural(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text.strip()):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _positive(text: str) -> int:
    number = _natural(text)
    if not number:
        raise ValueError("0 is too small")
    return number


def _seconds(text: str) -> float:
    """As Spark writes times: 15m, 30s, 500ms, 1h; a number alone is milliseconds."""
    found = re.fullmatch(r"(\d{1,12})\s*(ms|s|m|min|h|d|)", text.strip().lower())
    if found is None:
        raise ValueError(f"{text!r} is no time such as 15m, 30s or 500ms")
    return int(found[1]) * _UNITS_S[found[2]]


def _isolation(text: str) -> bool:
    if text not in ("read_committed", "read_uncommitted"):
        raise ValueError(f"{PREFIX}{_ISOLATION}: {text!r} is not read_committed or read_uncommitted")
    return text == "read_committed"


_READERS: Final[Mapping[str, tuple[str, Any]]] = {
    "subscribe": ("topics", _names),
    "subscribePattern": ("pattern", _pattern),
    "assign": ("assigned", _assignment),
    "startingOffsets": ("starting", _starting),
    "startingOffsetsByTimestamp": ("starting_times", _times),
    "startingTimestamp": ("starting_time", _time),
    "startingOffsetsByTimestampStrategy": ("or_latest", _strategy),
    "endingOffsetsByTimestamp": ("ending_times", _times),
    "endingTimestamp": ("ending_time", _time),
    "maxOffsetsPerTrigger": ("max_offsets_per_trigger", _positive),
    "minOffsetsPerTrigger": ("min_offsets_per_trigger", _positive),
    "maxTriggerDelay": ("max_trigger_delay_s", _seconds),
    "maxRecordsPerPartition": ("max_records_per_partition", _positive),
    "failOnDataLoss": ("fail_on_data_loss", _flag),
    "includeHeaders": ("headers", _flag),
    "endingOffsets": ("ending", _ending),
    "maxBytesPerTrigger": ("max_bytes_per_trigger", _positive),
    "minPartitions": ("min_partitions", _natural),
    "throttleBytesPerSecond": ("throttle_bytes_per_s", _natural),
    "tasks": ("tasks", _natural),
}
