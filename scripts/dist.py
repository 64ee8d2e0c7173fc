"""`make dist`: the wheel and the sdist, byte for byte the same wherever and whenever they are built from one commit.

What would differ is made equal before: they are built from a copy whose files have the modes that Git keeps and the
time of the commit (`SOURCE_DATE_EPOCH`, where that is set). setuptools writes the wheel by that; the sdist's times,
owners and order, which it does not, are written again here.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
LEFT_OUT: Final = (".*", "build", "dist", "*.egg-info", "__pycache__")
EARLIEST_S: Final = 315_532_800
"""1980, before which a zip has no times."""


def build(folder: Path, epoch_s: int) -> list[Path]:
    """Build both into a folder, with the times of all files at that many seconds since 1970; the two files."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "lockgate"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        for path in [copy, *copy.rglob("*")]:
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
            os.utime(path, (epoch_s, epoch_s))
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(copy)]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch_s), "PYTHONHASHSEED": "0"}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment, timeout=600)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    _write_again(sdist, epoch_s)
    return [wheel, sdist]


def _write_again(sdist: Path, epoch_s: int) -> None:
    written = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch_s, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    with sdist.open("wb") as file, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=epoch_s) as packed:
        packed.write(written.getvalue())


def _epoch_s() -> int:
    said = os.environ.get("SOURCE_DATE_EPOCH")
    if said is None:
        told = subprocess.run(
            ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        said = told.stdout.strip() or "0"
    return max(int(said), EARLIEST_S)


def main() -> None:
    """Build them into the folder that is named, dist/ by default."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in build(folder, _epoch_s()):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
