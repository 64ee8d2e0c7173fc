import socket
import subprocess
import sys

import pytest

from gateway.devcluster import DevClusterError, claim_ports, ports, release_ports
from gateway.devcluster.ports import is_port_free


def test_a_claimed_port_is_not_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    (claimed,) = claim_ports(1)
    monkeypatch.setattr(ports, "_FIRST", claimed)
    monkeypatch.setattr(ports, "_LAST", claimed + 1)
    with pytest.raises(DevClusterError):
        claim_ports(1)
    release_ports([claimed])
    assert claim_ports(1) == [claimed]
    release_ports([claimed])


def test_another_process_does_not_get_a_claimed_port() -> None:
    (claimed,) = claim_ports(1)
    script = (
        "from gateway.devcluster import ports\n"
        f"ports._FIRST, ports._LAST = {claimed}, {claimed + 1}\n"
        "ports.claim_ports(1)\n"
    )
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "DevClusterError" in other.stderr
    release_ports([claimed])


def test_a_port_with_a_server_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not is_port_free(server.getsockname()[1])


def test_consecutive_ports_follow_one_another() -> None:
    run = claim_ports(5, consecutive=True)
    assert run == list(range(run[0], run[0] + 5))
    release_ports(run)
