"""The systemd unit: its options exist, it gives up what a gateway does not need, and it fits what the gateway does."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.cli.api import USAGE
from gateway.runtime.process import CLOSE_S

UNIT = Path(__file__).parents[1] / "configs" / "systemd" / "lockgate.service"
ANALYZE = shutil.which("systemd-analyze")
MOST_EXPOSED = 20  # of 100; a service without any of it has 96


@pytest.fixture(scope="module")
def options() -> list[tuple[str, str, str]]:
    """Section, name and value of each line."""
    found, section = [], ""
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            match = re.fullmatch(r"([A-Z][A-Za-z]+)=(.*)", line)
            assert match is not None, f"no option: {line}"
            found.append((section, match[1], match[2]))
    return found


def test_every_line_is_an_option_in_its_section(options: list[tuple[str, str, str]]) -> None:
    assert {section for section, _, _ in options} == {"Unit", "Service", "Install"}
    several = {"SystemCallFilter"}
    names = [(section, name) for section, name, _ in options if name not in several]
    assert len(set(names)) == len(names)


def test_it_fits_the_gateway(options: list[tuple[str, str, str]]) -> None:
    service = {name: value for section, name, value in options if section == "Service"}
    assert service["ExecStart"].endswith("/lockgate serve --config /etc/lockgate/gateway.yaml")
    assert float(service["TimeoutStopSec"].removesuffix("s")) > CLOSE_S
    assert service["RestartPreventExitStatus"] == str(USAGE)
    assert "XDG_STATE_HOME=/var/lib" in service["Environment"].split()  # where the admin's token is made
    assert service["StateDirectory"] == "lockgate"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CapabilityBoundingSet", ""),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("DynamicUser", "yes"),
        ("LimitCORE", "0"),
        ("UMask", "0077"),
        ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX"),
    ],
)
def test_it_has_no_more_than_it_needs(options: list[tuple[str, str, str]], name: str, value: str) -> None:
    assert ("Service", name, value) in options


def test_the_gateway_may_set_its_own_limits_and_prove_its_name(options: list[tuple[str, str, str]]) -> None:
    """RLIMIT_NOFILE and RLIMIT_CORE (`runtime/limits.py`); /proc/sys (`transport/name_lock.py`)."""
    filters = [value for _, name, value in options if name == "SystemCallFilter"]
    assert filters[0] == "@system-service"
    assert filters[-1] == "setrlimit prlimit64"
    assert not any(name == "ProcSubset" for _, name, _ in options)


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
def test_systemd_knows_every_option() -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(UNIT)], capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if "is not executable" not in line]
    assert not [line for line in said if UNIT.name in line]


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed")
def test_systemd_finds_it_little_exposed() -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", str(UNIT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-400:]
