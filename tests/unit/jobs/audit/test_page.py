from datetime import UTC, datetime

from gateway.jobs.audit.page import SHOWN, page
from gateway.jobs.audit.report import ClusterFacts, Report
from gateway.jobs.audit.verdict import Compared, Counts, judge


def report(partitions: int, bad: int) -> Report:
    findings = []
    for index in range(partitions):
        compared = Compared(
            topic="<b>t</b>",
            partition=index,
            source_start=0,
            source_end=10,
            target_start=0,
            target_end=10,
            start=0,
            end=10,
        )
        difference = {"source_offset": 3, "target_offset": 3, "difference": "value", "source": None, "target": None}
        findings.append(judge(compared, Counts(), difference if index == bad else None))
    return Report(
        source=ClusterFacts("s", "a:1", 1),
        target=ClusterFacts("t", "b:1", 1),
        topics=("<b>t</b>",),
        mapped=False,
        fraction=1.0,
        seed=0,
        started=datetime(2026, 1, 1, tzinfo=UTC),
        finished=datetime(2026, 1, 2, tzinfo=UTC),
        batches_s=2.0,
        total_s=3.0,
        source_bytes=1000,
        spark_version="4",
        cores=2,
        findings=tuple(findings),
    )


def test_the_page_shows_the_worst_first_and_says_what_it_leaves_out() -> None:
    shown = page(report(SHOWN + 5, bad=SHOWN + 4).to_dict(), "f" * 64)

    assert f"First divergence of &lt;b&gt;t&lt;/b&gt;-{SHOWN + 4}: value" in shown
    assert "5 more partitions are in the JSON report" in shown
    assert "f" * 64 in shown


def test_names_are_escaped() -> None:
    shown = page(report(1, bad=9).to_dict(), "")
    assert "<b>t</b>" not in shown
    assert '<span class="IDENTICAL">IDENTICAL</span>' in shown
