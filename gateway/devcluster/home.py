"""Where jars and clusters live on disk."""

import os
from importlib.resources import files
from pathlib import Path
from typing import Final

HOME_VARIABLE: Final = "LOCKGATE_DEV_HOME"


def dev_home() -> Path:
    """Folder of everything that is made here.

    $LOCKGATE_DEV_HOME if set; the `build` folder when the package is used from a checkout; the user's cache folder
    when it is installed from a wheel.
    """
    chosen = os.environ.get(HOME_VARIABLE)
    if chosen:
        return Path(chosen).absolute()
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file() and (checkout / "configs" / "brokers").is_dir():
        return checkout / "build"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lockgate"


def brokers_folder(kafka_version: str) -> Path:
    """Folder of one version's jars and of the log settings for its tools."""
    return dev_home() / "brokers" / kafka_version


def clusters_folder() -> Path:
    """Folder that holds one folder per cluster, unless the caller names another."""
    return dev_home() / "clusters"


def pom_text() -> str:
    """The Maven pom that names the jars. It is package data, so that an installed wheel has it too."""
    return files("gateway.devcluster").joinpath("pom.xml").read_text(encoding="utf-8")
