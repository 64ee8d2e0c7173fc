"""`lockgate quickstart` as somebody runs it who has a JDK and nothing else: from the wheel, in an empty environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.wheel import ROOT, install_wheel

MOST_S = 120.0


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that has the wheel and what it needs to run."""
    return install_wheel(tmp_path_factory.mktemp("installed"))


@pytest.mark.timeout(900)
def test_a_jdk_is_enough(installed: Path, tmp_path: Path) -> None:
    java = shutil.which("java")
    assert java is not None
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "java").symlink_to(java)
    home = tmp_path / "home"
    home.mkdir()
    environment = {"PATH": str(programs), "HOME": str(home), "LANG": "C.UTF-8"}
    environment |= {name: os.environ[name] for name in ("JAVA_HOME", "SSL_CERT_FILE") if name in os.environ}
    began = time.monotonic()
    done = subprocess.run(
        [str(installed / "lockgate"), "quickstart"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    took_s = time.monotonic() - began
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = re.findall(r"^quickstart: .*$", done.stdout, re.MULTILINE)
    with (ROOT / "build" / "quickstart.txt").open("w", encoding="utf-8") as said:
        said.write(line + "\n")
    assert re.fullmatch(r"quickstart: PASS seconds=\d+ lost=0 duplicated=0", line), line
    assert took_s < MOST_S
    assert not (home / ".cache" / "lockgate" / "quickstart").exists(), "nothing of it is left but the brokers' jars"
