"""All loads of the bench at the smallest size: that they work at all. No figure is judged here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.small_bench import CONTESTANTS, run_bench


@pytest.mark.slow
def test_loads_through_the_gateway(tmp_path: Path) -> None:
    loads = ["rest", "fetch", "produce_tls", "fetch_tls", "small"]
    loads += ["promote", "together", "connections", "gate", "metadata", "micro"]
    result, last = run_bench(tmp_path, *loads)
    took_part = {sample["contestant"] for sample in result["samples"] if sample["load"] == "fetch"}
    assert took_part >= CONTESTANTS
    passed = {"pass_fetch", "pass_produce", "pass_produce_topics", "forward_produce", "forward_produce_partitions"}
    assert set(result["micro"]) == {"framing", "header_peek", "produce_split", "batch_rewrite"} | passed
    assert result["machine"]["cores"] >= 1
    assert result["versions"]["target_kafka"] == "4.3.1"
    assert re.fullmatch(r"bench: produce_x=- .*small_cpu_s_million=[\d.]+ .*pause_p99_ms=[\d.]+", last)


@pytest.mark.slow
def test_the_engine_beside_mirror_maker(tmp_path: Path) -> None:
    result, last = run_bench(tmp_path, "mirror_16k")
    assert {sample["contestant"] for sample in result["samples"]} == {"gateway", "mm2"}
    assert re.search(r" mirror_cpu_s_gb=[\d.]+ mirror_vs_mm2_cpu=[\d.]+ ", last)
