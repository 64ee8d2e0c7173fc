"""What users and their programs have learnt by heart is as it was."""

from __future__ import annotations

import pytest

from tests.support.pages.golden import FILES, FOLDER


@pytest.mark.parametrize("name", sorted(FILES))
def test_it_is_as_it_was_written_down(name: str) -> None:
    told = "python -m tests.support.pages.golden; say in the commit what changes for users"
    assert (FOLDER / name).read_text(encoding="utf-8") == FILES[name](), told
