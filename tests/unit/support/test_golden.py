"""What users and their programs have learnt by heart is as it was, and the pages that are made of it show it."""

from __future__ import annotations

import pytest

from tests.support.pages.golden import FILES, FOLDER
from tests.support.pages.reference_pages import PAGES, REFERENCE

TOLD = "python -m tests.support.pages.golden; say in the commit what changes for users"


@pytest.mark.parametrize("name", sorted(FILES))
def test_it_is_as_it_was_written_down(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == FILES[name](), TOLD


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_page_is_as_it_was_written(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), TOLD
