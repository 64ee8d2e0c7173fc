"""Topics of the load: made, measured and dropped through librdkafka's admin client."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import KafkaException, NewTopic

from bench.errors import BenchError
from bench.waiting import wait_until

PARTITIONS: Final = 6
_PARTITIONS_AT_ONCE: Final = 1_000
"""A controller refuses a request that makes ten times as many."""
_DROPPED_S: Final = 20.0
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_numbers = itertools.count(1)


class Topics:
    """The topics of one cluster."""

    def __init__(self, bootstrap: str, replicas: int = 1) -> None:
        """`replicas`: of the topics that are made."""
        self._bootstrap = bootstrap
        self._replicas = replicas
        self._admin = self._new_admin()

    def _new_admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})

    def create(self, name: str, partitions: int = PARTITIONS) -> str:
        """Create a topic and return its name once its leaders know that they are. Raises BenchError when the cluster
        refuses."""
        self.create_all([name], partitions)
        wait_until(lambda: self._ends([name], partitions) is not None, 60.0, f"the leaders of {name}", poll_s=0.05)
        return name

    def create_all(self, names: Sequence[str], partitions: int = PARTITIONS) -> None:
        """Create several topics, and wait until the brokers tell of them and their leaders."""
        wanted = [NewTopic(name, num_partitions=partitions, replication_factor=self._replicas) for name in names]
        at_once, admin = (
            max(1, _PARTITIONS_AT_ONCE // partitions),
            self._admin,
        )  # it must live until the answers are there
        try:
            for first in range(0, len(wanted), at_once):
                created = admin.create_topics(wanted[first : first + at_once], operation_timeout=60, request_timeout=90)
                for done in created.values():
                    done.result(90)
        except (KafkaException, TimeoutError) as error:
            raise BenchError(f"topics {names[0]} … cannot be created: {error!r}") from error
        wait_until(lambda: self._led(names) == partitions * len(names), 120.0, f"leaders of {names[0]} …", poll_s=0.05)

    def wait_in_sync(self, names: Sequence[str], partitions: int = PARTITIONS) -> None:
        """Wait until each partition of these topics has all of its replicas in sync, and its leader tells its end."""
        wait_until(lambda: self._in_sync(names) == partitions * len(names), 300.0, f"replicas of {names[0]} …")
        wait_until(lambda: self._ends(names, partitions) is not None, 120.0, f"leaders of {names[0]} …", poll_s=0.5)

    def _in_sync(self, names: Sequence[str]) -> int:
        known = self._admin.list_topics(timeout=20).topics
        found = [partition for name in names if name in known for partition in known[name].partitions.values()]
        return sum(len(partition.isrs) == self._replicas for partition in found)

    def _led(self, names: Sequence[str]) -> int:
        """How many partitions of these topics have a leader."""
        known = self._admin.list_topics(timeout=20).topics
        found = [partition for name in names if name in known for partition in known[name].partitions.values()]
        return sum(partition.leader >= 0 for partition in found)

    def drop(self, *names: str) -> None:
        """Delete topics; one that is not there is no fault. Raises BenchError when brokers do not answer."""
        for name, done in self._admin.delete_topics(list(names), operation_timeout=10).items():
            try:
                done.exception(_DROPPED_S)
            except TimeoutError as error:
                raise BenchError(f"waited {_DROPPED_S:.0f} s for topic {name} to be deleted") from error

    def records(self, name: str, partitions: int = PARTITIONS) -> int:
        """How many records a topic took in all its life: the sum of its end offsets. 0 while it is not there."""
        return self._ends([name], partitions) or 0

    def _ends(self, names: Sequence[str], partitions: int) -> int | None:
        """Their sum; None while a leader does not tell."""
        wanted = {TopicPartition(name, index): _LATEST for name in names for index in range(partitions)}
        admin = self._admin  # another thread may have another client made meanwhile
        try:
            found = admin.list_offsets(wanted, request_timeout=20).values()
            return sum(int(done.result(20).offset) for done in found)
        except (KafkaException, TimeoutError):  # not there yet; this client may remember that for too long
            self._admin = self._new_admin()
            return None

    def wait_for_records(
        self, name: str, records: int, deadline_s: float, *, partitions: int = PARTITIONS, poll_s: float = 0.05
    ) -> None:
        """Wait until a topic holds so many.

        Raises:
            BenchError: it did not come to it, or has more.
        """
        have = wait_until(
            lambda: (found := self.records(name, partitions)) >= records and found,
            deadline_s,
            f"{records} records in {name}",
            poll_s=poll_s,
        )
        if have != records:
            raise BenchError(f"{name} has {have} records, not {records}: something wrote twice")


def fresh(base: str) -> str:
    """A topic name that this run has not used."""
    return f"{base}-{next(_numbers)}"
