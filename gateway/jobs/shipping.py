"""Brings this project's wheel to the executors.

Spark sends every file of --py-files to them, but puts only .zip, .egg and .jar files on Python's path. A wheel is a zip
file; so it is sent once more under such a name.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from pyspark import SparkContext

_WHEEL: Final = ".whl"


def ship_wheels(context: SparkContext) -> None:
    """Send the wheels that --py-files names; those that were sent before are left out."""
    for named in context.getConf().get("spark.submit.pyFiles", "").split(","):
        wheel = Path(named.removeprefix("file:"))
        if wheel.suffix != _WHEEL or not wheel.is_file():
            continue
        name = f"{wheel.stem}.zip"
        if name in (context._python_includes or ()):
            continue
        archive = Path(str(context._temp_dir)) / name  # the driver serves it for as long as the session lives
        shutil.copyfile(wheel, archive)
        context.addPyFile(str(archive))
