"""Requests that go to many brokers at once, or to one that may move: split, sent, and tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NoReturn, TypeAlias, TypeVar

from gateway.kafka.acts import ActRefused, RestRefused
from gateway.kafka.cluster import CONTROL_LANE, Cluster
from gateway.kafka.connection.errors import (
    ClusterUnavailable,
    LeadersUnreachable,
    NetError,
    PartitionErrors,
    UnsupportedVersion,
)
from gateway.kafka.connection.pool import Lane
from gateway.kafka.topic_partition import TopicPartition
from gateway.transport.backoff import Backoff
from protocol.errors import ErrorCode, error_name, is_retriable

Result = TypeVar("Result")
Parser: TypeAlias = Callable[[Any], Iterable[tuple[TopicPartition, int, Result]]]

_LEAST_TRY_S = 0.05  # with less left another try would only hide why the one before failed
_COORDINATOR_MOVED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,  # it could not write: it may have lost its cluster, and coordinate from memory alone
)
_COORDINATOR_BUSY = (
    *_COORDINATOR_MOVED,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
)


class ByLeader:
    """One request per leader for a set of partitions, repeated for those whose leader was not the one.

    What a leader has answered stands, whatever becomes of the others: it is not asked for again, and goes with the
    error of those that failed. So an act is repeated only where its outcome is unknown.

    Args:
        what: names the call in messages.
        build: partitions -> request for one leader.
        parse: response -> (partition, error code, result) of each partition in it.
    """

    def __init__(
        self,
        cluster: Cluster,
        what: str,
        build: Callable[[Collection[TopicPartition]], Any],
        parse: Parser[Result],
    ) -> None:
        self._cluster = cluster
        self._what = what
        self._build = build
        self._parse = parse
        self._results: dict[TopicPartition, Any] = {}
        self._errors: dict[TopicPartition, int] = {}
        self._pending: dict[TopicPartition, int] = {}
        self._reason = ""
        self._failure: NetError | None = None  # of a leader that need not be asked again

    async def run(self, wanted: Collection[TopicPartition], timeout_s: float | None) -> dict[TopicPartition, Any]:
        """The results of all partitions.

        Raises:
            PartitionErrors: some failed, with the results of the others; UNSUPPORTED_VERSION (35): their leader does
                not know the API.
            LeadersUnreachable: the brokers of some could not be reached within the deadline; as above.
            RestRefused: an act, which may not go on; as above. OPERATION_NOT_ATTEMPTED (55): not sent.
            ClusterUnavailable, UnsupportedVersion, ActRefused: so it is with all of them, and nothing was done.
        """
        cluster, loop = self._cluster, asyncio.get_running_loop()
        total_s = cluster.config.api_timeout_s if timeout_s is None else timeout_s
        deadline = loop.time() + total_s
        backoff = Backoff(*cluster.config.retry_backoff_s, cluster.rng)
        self._pending = dict.fromkeys(wanted, int(ErrorCode.NONE))
        if any(cluster.leader(*partition) is None for partition in self._pending):
            await self._look_again(deadline)
        while self._pending:
            leaders = self._by_leader()
            try_s = max(1.0, total_s / 3)
            outcomes = [
                self._ask(node, group, max(0.001, min(try_s, deadline - loop.time())))
                for node, group in leaders.items()
            ]
            for outcome in await asyncio.gather(*outcomes, return_exceptions=True):  # none runs on behind an error
                if outcome is not None:
                    raise outcome
            if not self._pending:
                break
            if isinstance(self._failure, ActRefused):
                self._errors.update(self._pending)
                break
            if not await self._wait(backoff.next(), deadline):
                self._give_up()
                break
        if self._errors:
            self._fail()
        return self._results

    async def _wait(self, wait_s: float, deadline: float) -> bool:
        """Wait, then look where the leaders are now. False when no time is left for that or for another try."""
        if asyncio.get_running_loop().time() + wait_s + _LEAST_TRY_S >= deadline:
            return False
        await asyncio.sleep(wait_s)
        self._cluster.invalidate()  # who told of these leaders may know of no others
        try:
            await self._look_again(deadline)
        except ClusterUnavailable as exc:
            self._reason = self._reason or str(exc)
            return False
        return True

    def _by_leader(self) -> Mapping[int, list[TopicPartition]]:
        leaders: dict[int, list[TopicPartition]] = {}
        for partition in self._pending:
            leader = self._cluster.leader(*partition)
            if leader is None:
                self._pending[partition] = ErrorCode.LEADER_NOT_AVAILABLE
            else:
                leaders.setdefault(leader, []).append(partition)
        return leaders

    async def _ask(self, node: int, partitions: list[TopicPartition], timeout_s: float) -> None:
        """Ask one leader."""
        try:
            response = await self._cluster.request(self._build(partitions), node_id=node, timeout_s=timeout_s)
        except ClusterUnavailable as exc:
            self._reason = str(exc)
            self._pending.update(dict.fromkeys(partitions, int(ErrorCode.NETWORK_EXCEPTION)))
            return
        except NetError as exc:  # no further try can mend it
            self._failure = exc if self._failure is None or isinstance(exc, ActRefused) else self._failure
            for partition in partitions:
                before, code = self._pending.pop(partition), _code_of(exc)
                unknown = before == ErrorCode.NETWORK_EXCEPTION and isinstance(exc, ActRefused)  # sent, in a try before
                self._errors[partition] = before if unknown else code
            return
        # Of one that is left out of the answer nothing is known.
        self._pending.update(dict.fromkeys(partitions, int(ErrorCode.UNKNOWN_SERVER_ERROR)))
        for partition, code, result in self._parse(response):
            if partition not in self._pending:
                continue
            if not code:
                self._results[partition] = result
                del self._pending[partition]
            elif is_retriable(code):
                self._pending[partition] = code
            else:
                self._errors[partition] = code
                del self._pending[partition]

    async def _look_again(self, deadline: float) -> None:
        """New metadata; a partition that is not in it does not exist."""
        topics = {topic for topic, _ in self._pending}
        remaining_s = deadline - asyncio.get_running_loop().time()
        view = await self._cluster.refresh(topics, timeout_s=max(0.001, remaining_s))
        for topic, partition in tuple(self._pending):
            known = view.topics.get(topic)
            if known is not None and partition in known.partitions:
                continue
            refused = known.error if known is not None and not is_retriable(known.error) else 0
            self._errors[topic, partition] = refused or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            del self._pending[topic, partition]

    def _give_up(self) -> None:
        if all(code == ErrorCode.NETWORK_EXCEPTION for code in self._pending.values()) and not self._errors:
            why = f"{self._what}: {self._reason}"
            raise LeadersUnreachable(why, self._pending, self._results) if self._results else ClusterUnavailable(why)
        self._errors.update(self._pending)

    def _fail(self) -> NoReturn:
        """Tell of the errors in the way that says whether anything was done."""
        failure = self._failure
        if failure is not None and not self._results and set(self._errors.values()) == {_code_of(failure)}:
            raise failure
        kind = RestRefused if isinstance(failure, ActRefused) else PartitionErrors
        raise kind(self._what, self._errors, self._results) from failure


def _code_of(failure: NetError) -> int:
    match failure:
        case UnsupportedVersion():
            return int(ErrorCode.UNSUPPORTED_VERSION)
        case ActRefused():
            return int(ErrorCode.OPERATION_NOT_ATTEMPTED)
        case _:
            return int(ErrorCode.UNKNOWN_SERVER_ERROR)


async def on_coordinator(
    cluster: Cluster,
    group: str,
    message: Any,
    codes: Callable[[Any], Iterable[int]],
    *,
    cap: int | None = None,
    timeout_s: float | None = None,
    lane: Lane = CONTROL_LANE,
) -> Any:
    """Send a request to a group's coordinator, again when it has moved or is loading.

    The request must be one that may be carried out twice.

    Args:
        codes: response -> the error codes in it.
        lane: the connection to use; what is behind a JoinGroup on one is held up as long as that is.

    Returns:
        The response; its error codes are 0 or such as no further try can mend.

    Raises:
        ClusterUnavailable: no such response within the deadline.
    """
    loop = asyncio.get_running_loop()
    total_s = cluster.config.api_timeout_s if timeout_s is None else timeout_s
    deadline = loop.time() + total_s
    backoff = Backoff(*cluster.config.retry_backoff_s, cluster.rng)
    while True:
        remaining_s = max(0.001, deadline - loop.time())
        node: int | None = None
        try:
            node = await cluster.coordinator(group, timeout_s=remaining_s)
            try_s = min(max(0.001, deadline - loop.time()), max(1.0, total_s / 3))
            response = await cluster.request(message, node_id=node, cap=cap, timeout_s=try_s, lane=lane)
        except ClusterUnavailable as exc:
            failure, moved = exc, True
        else:
            found = [code for code in codes(response) if code in _COORDINATOR_BUSY]
            if not found:
                return response
            failure = ClusterUnavailable(f"group {group}: {error_name(found[0])}")
            moved = any(code in _COORDINATOR_MOVED for code in found)
        if moved:
            cluster.invalidate_coordinator(group, node)
        wait_s = backoff.next()
        if loop.time() + wait_s + _LEAST_TRY_S >= deadline:
            raise failure
        await asyncio.sleep(wait_s)
