"""The files of the page: what is in the folder `page/`, and nothing else."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

_KINDS: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
PAGE: Final = "console.html"


class File(NamedTuple):
    """Its bytes and content type."""

    content: bytes
    kind: str


@cache
def page_files() -> dict[str, File]:
    """By name."""
    folder = files("gateway.console").joinpath("page")
    return {
        each.name: File(each.read_bytes(), _KINDS[ending])
        for each in folder.iterdir()
        if (ending := each.name.rpartition(".")[2]) in _KINDS
    }
