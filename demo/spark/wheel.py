"""This project as a wheel, for --py-files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from demo.errors import DemoError
from demo.settings import ROOT


def build_wheel(folder: Path) -> Path:
    """Build it from a copy, so that no build folder is left behind and none is used again."""
    copy, out = folder / "project", folder / "dist"
    for old in (copy, out):
        shutil.rmtree(old, ignore_errors=True)
    left_out = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(ROOT, copy, ignore=left_out)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DemoError("the wheel could not be built", done.stdout + done.stderr)
    (wheel,) = out.glob("*.whl")
    return wheel
