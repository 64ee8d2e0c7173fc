"""The bench at its smallest: a few of its loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.small_bench import CONTESTANTS, run_bench


@pytest.mark.slow
def test_a_few_loads(tmp_path: Path) -> None:
    result, last = run_bench(tmp_path, "fetch", "small")
    took_part = {sample["contestant"] for sample in result["samples"] if sample["load"] == "fetch"}
    assert took_part >= CONTESTANTS
    assert last.startswith("bench: produce_x=- fetch_x=")
