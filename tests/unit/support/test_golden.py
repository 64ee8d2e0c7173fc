"""What users and their programs have learnt by heart is as it was, and the pages that are made of it show it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.pages.golden import FILES, FOLDER
from tests.support.pages.reference_pages import FOLDERS

TOLD = "python -m tests.support.pages.golden; say in the commit what changes for users"


@pytest.mark.parametrize("name", sorted(FILES))
def test_it_is_as_it_was_written_down(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == FILES[name](), TOLD


@pytest.mark.parametrize(
    ("path", "made"), [(folder / name, made) for folder, files in FOLDERS.items() for name, made in files.items()]
)
def test_what_is_made_of_it_is_as_it_was_written(path: Path, made: Callable[[], str]) -> None:
    assert path.read_text(encoding="utf-8") == made(), TOLD
