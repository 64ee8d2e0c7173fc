"""/health and /ready tell the truth, and strangers no more of it than its name. The limits of the process."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.runtime.health import Vitals, checks
from tests.support.control.secured_api import secured_api


@pytest.mark.parametrize(
    ("vitals", "name", "reason"),
    [
        (Vitals(read_error="no leader"), "state", "the state topic cannot be read: no leader"),
        (Vitals(applied=4, wanted=7), "state", "read up to offset 4, the fleet is at 7"),
        (
            Vitals(closed_ports=("bootstrap", "2")),
            "listeners",
            "not listening: 2, bootstrap",
        ),
        (Vitals(stopping=True), "listeners", "this gateway stops"),
        (Vitals(lease_left_s=0.0), "lease", "the lease is over"),
        (Vitals(admitted=False, lease_left_s=0.0), "lease", "not admitted this gateway yet"),
        (Vitals(lease_left_s=0.0, fleet_trouble="the fleet is too large"), "lease", "the fleet is too large"),
        (Vitals(target_error="connection refused"), "target", "connection refused"),
    ],
)
def test_each_check_fails_by_its_own_fact(vitals: Vitals, name: str, reason: str) -> None:
    found = checks(vitals)
    assert [each for each, why in found.items() if why] == [name]
    assert reason in found[name]
    assert not any(checks(Vitals()).values())


async def test_a_failing_check_is_503_with_its_reason_for_those_who_may_know(tmp_path: Path) -> None:
    async with secured_api(tmp_path) as api, api.client() as knows, api.client("") as stranger:
        api.checks = {"state": "", "listeners": "", "lease": "", "target": ""}
        for path, names in (("/health", ("listeners",)), ("/ready", ("state", "listeners", "lease", "target"))):
            answer = await stranger.get(path)
            assert answer.status_code == 200
            assert answer.json() == {"status": "ok", "checks": dict.fromkeys(names, "ok")}
        api.checks = {**api.checks, "target": "10.1.2.3:9092: connection refused"}
        assert (await stranger.get("/health")).status_code == 200  # no restart would mend it
        told = await stranger.get("/ready")
        assert told.status_code == 503
        assert told.json() == {
            "status": "failing",
            "checks": {"state": "ok", "listeners": "ok", "lease": "ok", "target": "failed"},
        }
        assert (await knows.get("/ready")).json()["checks"]["target"] == "10.1.2.3:9092: connection refused"
        api.checks = {**api.checks, "listeners": "not listening: bootstrap"}
        assert (await stranger.get("/health")).status_code == 503
        assert (await knows.get("/health")).json()["checks"] == {"listeners": "not listening: bootstrap"}


async def test_metrics_need_a_viewer_or_the_option(tmp_path: Path) -> None:
    async with secured_api(tmp_path) as api, api.client("") as stranger, api.client() as knows:
        assert (await stranger.get("/metrics")).status_code == 401
        assert "lockgate_" in (await knows.get("/metrics")).text
    async with secured_api(tmp_path, public_metrics=True) as api, api.client("") as stranger:
        assert "lockgate_" in (await stranger.get("/metrics")).text
        assert (await stranger.get("/v3/status")).status_code == 401


_PROGRAM = """
import ctypes, json, resource, types
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from gateway.runtime import process
process.uvloop.run = lambda work: work.close() or 0
process.run(types.SimpleNamespace(workers=1))
print(json.dumps([resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE),
                  ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)]))
"""


def test_the_process_may_have_many_files_and_leaves_no_core() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    files, core, dumpable = json.loads(done.stdout.splitlines()[-1])
    assert files[0] == files[1] == resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    assert core == [0, 0]
    assert dumpable == 0
