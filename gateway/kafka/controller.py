"""Changes go to the cluster's controller (on KRaft to any broker, which forwards them), wherever it has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from gateway.kafka.cluster import CONTROL_LANE, Cluster
from gateway.kafka.connection.errors import ClusterUnavailable, UnsupportedVersion
from gateway.transport.backoff import Backoff
from protocol.apis import ApiKey
from protocol.errors import ErrorCode

_MOVED = (ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE)
_NONE_FOUND = "the cluster has no controller"


async def on_controller(
    cluster: Cluster,
    build: Callable[[int], Any],
    results: Callable[[Any], Iterable[Any]],
    timeout_s: float | None,
    least: tuple[ApiKey, int] | None = None,
) -> Any:
    """Send a change to the controller, again only when it certainly was not carried out.

    Args:
        build: milliseconds for the broker to wait -> request.
        results: response -> the parts that carry an error code.
        timeout_s: None: the cluster's own limit.
        least: an API and the version from which on it can say what is meant; nothing is sent in an older one.

    Raises:
        UnsupportedVersion: the controller does not know `least`; nothing was sent.
        ClusterUnavailable: no controller, or no answer, within the deadline; the change may have been made.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (cluster.config.api_timeout_s if timeout_s is None else timeout_s)
    backoff = Backoff(*cluster.config.retry_backoff_s, cluster.rng)
    if cluster.view.controller_id not in cluster.view.brokers:
        await cluster.refresh((), timeout_s=max(0.001, deadline - loop.time()))
    while True:
        controller = cluster.view.controller_id
        if controller is not None:
            remaining_s = max(0.001, deadline - loop.time())
            connection = await cluster.connection(controller, CONTROL_LANE, remaining_s)
            if least is not None and connection.version(least[0]) < least[1]:
                raise UnsupportedVersion(
                    f"{least[0].name} needs version {least[1]}, which the controller does not have"
                )
            remaining_s = max(0.001, deadline - loop.time())
            # The broker gives up a little before we do, so that its own reason is heard.
            response = await connection.request(build(int(remaining_s * 900)), timeout_s=remaining_s)
            if not any(result.error_code in _MOVED for result in results(response)):
                return response
        wait_s = backoff.next()
        if loop.time() + wait_s >= deadline:
            raise ClusterUnavailable(_NONE_FOUND)
        await asyncio.sleep(wait_s)
        await _look_again(cluster, deadline)


async def _look_again(cluster: Cluster, deadline: float) -> None:
    """Refresh a view without a controller, or with one that is none any more: of another broker, which may know better.

    If the time is over before the answer, that is still the reason.
    """
    cluster.invalidate()
    try:
        await cluster.refresh((), timeout_s=max(0.001, deadline - asyncio.get_running_loop().time()))
    except ClusterUnavailable as exc:
        if cluster.available:
            raise ClusterUnavailable(_NONE_FOUND) from exc
        raise
