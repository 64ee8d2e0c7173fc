from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from gateway.cli.main import app
from gateway.devcluster.process import ServerProcess
from gateway.quickstart.lab import Lab
from tests.support.waiting import wait_until


def left_over(folder: Path) -> subprocess.Popen[bytes]:
    """A process of a quickstart that was killed: known by the settings in its command line."""
    for name in ("config", "logs"):
        (folder / name).mkdir(parents=True)
    process = ServerProcess(folder, "producer-1")
    process.config.touch()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", str(process.config)])
    (folder / "producer-1.pid").write_text(f"{child.pid}\n", encoding="ascii")
    return child


def test_what_an_earlier_one_left_is_ended_and_removed(tmp_path: Path) -> None:
    folder = tmp_path / "quickstart"
    child = left_over(folder)
    wait_until(lambda: ServerProcess(folder, "producer-1").pid() is not None, 10.0, what="the process is there")
    # As its parent this test has to reap it, or it stays in the table of processes.
    done = CliRunner().invoke(app, ["quickstart", "--clean", "--dir", str(folder)])
    assert done.exit_code == 0, done.output
    assert child.wait(10.0) < 0
    assert not folder.exists()


def test_cleaning_where_nothing_is_changes_nothing(tmp_path: Path) -> None:
    Lab(tmp_path / "none").clean()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    done = CliRunner().invoke(app, ["quickstart", "--dir", str(tmp_path / "mine")])
    assert done.exit_code == 1
    assert "is there already: lockgate quickstart --clean" in done.stderr
    assert (tmp_path / "mine" / "file").exists()
