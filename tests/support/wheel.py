"""The wheel, as somebody would install it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build_wheel(folder: Path) -> Path:
    """Build it in a folder, from a copy, so that no build folder is left behind and none is reused; the file."""
    copy = folder / "project" / "lockgate"
    left_out = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=left_out)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(copy)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    (built,) = (folder / "dist").glob("*.whl")
    return built


def install_wheel(folder: Path) -> Path:
    """Build it, and install it with what it needs to run into an empty environment; the folder of its programs."""
    wheel = build_wheel(folder)
    programs = folder / "venv" / "bin"
    subprocess.run([sys.executable, "-m", "venv", str(programs.parent)], check=True, timeout=120)
    pip = [str(programs / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    lock = ROOT / "requirements" / "runtime.lock"
    subprocess.run([*pip, "--require-hashes", "-r", str(lock)], check=True, timeout=600)
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True, timeout=120)
    return programs
