"""One gateway before the target, with no link: what a stranger finds on its port."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.devcluster import DevCluster
from tests.support.gateways.gateway import GatewayProcess


@pytest.fixture(scope="module")
def gateway(target: DevCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """It closes silent connections after one second and takes requests of at most 1 MiB."""
    limits = {"idle_timeout_s": 1.0, "max_request_bytes": 1 << 20}
    process = GatewayProcess(tmp_path_factory.mktemp("gateway"), target.bootstrap, listener=limits)
    process.start()
    yield process
    process.close()
