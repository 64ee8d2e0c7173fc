"""Options of Spark's own Kafka source that mean nothing here, or cannot be had: passed over with a warning, or refused
with the reason. Names are in lower case, as Spark hands them on."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

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
