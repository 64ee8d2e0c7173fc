"""The page of a report: the verdict, the sums and the first difference are on it, and nothing breaks out of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gateway.jobs.audit.page import SHOWN, page
from gateway.jobs.audit.report import ClusterFacts, Report
from gateway.jobs.audit.sums import sum_lines
from gateway.jobs.audit.verdict import PartitionVerdict
from gateway.state.producer_ids import mirror_producer_id
from gateway.state.provenance import kind_of_writer
from tests.support.jobs.audit_logs import Log, Logs, audit, copied, facts_of, plain_log


def finding(source: Log, target: Log, index: int = 0) -> PartitionVerdict:
    logs = Logs(source, target)
    found = audit(facts_of(logs, topic="<b>t</b>"), logs)
    return replace(found, asked=replace(found.asked, partition=index))


def report(*findings: PartitionVerdict, **options: Any) -> dict[str, Any]:
    return Report(
        source=ClusterFacts("s", "a:1", 1),
        target=ClusterFacts("t", "b:1", 1),
        topics=("<b>t</b>",),
        relation="equal on both clusters",
        fraction=1.0,
        seed=0,
        started=datetime(2026, 1, 1, tzinfo=UTC),
        finished=datetime(2026, 1, 2, tzinfo=UTC),
        compared_s=2.0,
        total_s=3.0,
        source_bytes=1000,
        spark_version="4",
        cores=2,
        findings=tuple(findings),
        **options,
    ).to_dict()


def test_the_page_shows_the_worst_first_and_says_what_it_leaves_out() -> None:
    source = plain_log(10)
    good = finding(source, copied(source))
    many = [replace(good, asked=replace(good.asked, partition=index)) for index in range(SHOWN + 4)]
    shown = page(report(*many, finding(Log(), source, SHOWN + 4)), "f" * 64)

    assert f"First difference of &lt;b&gt;t&lt;/b&gt;-{SHOWN + 4}: beyond_end; 10 in all" in shown
    assert "5 more partitions are in the JSON report" in shown
    assert "1 DIFFERENT, 2,004 IDENTICAL" in shown
    assert "f" * 64 in shown


def test_the_page_says_why_it_is_incomplete() -> None:
    source = plain_log(20)
    shown = page(report(finding(source, copied(source, 14))), "")
    assert '<h1>Audit: <span class="INCOMPLETE">INCOMPLETE</span></h1>' in shown
    assert "&lt;b&gt;t&lt;/b&gt;-0: INCOMPLETE: 6 record(s) are not mirrored yet" in shown
    assert "source records: 20 = 14 equal + 6 not mirrored yet" in shown
    assert "Every sum closes." in shown


def test_names_are_escaped() -> None:
    source = plain_log(3)
    shown = page(report(finding(source, copied(source))), "")
    assert "<b>t</b>" not in shown
    assert '<span class="IDENTICAL">IDENTICAL</span>' in shown


def test_the_sums_in_words() -> None:
    source = plain_log(20).add_marker()
    found = report(finding(source, copied(plain_log(20))))
    assert sum_lines(found["totals"]) == [
        "source offsets: 21 = 20 records + 1 transaction markers",
        "target offsets: 20 = 20 records",
        "source records: 20 = 20 equal",
        "target records: 20 = 20 equal",
    ]
    assert sum_lines(found["partitions"][0]) == sum_lines(found["totals"])


def test_a_report_can_be_signed() -> None:
    source = plain_log(20)
    one, other = report(finding(source, copied(source))), report(finding(source, copied(source)))
    assert one["digest"] == other["digest"] != report(finding(source, copied(source, 14)))["digest"]
    assert one["exit_code"] == 0
    assert one["totals"]["closes"] is True


def test_it_says_of_which_cluster_the_records_are_and_who_wrote_them() -> None:
    source = plain_log(20)
    found = finding(source, copied(source))
    mirror, client = mirror_producer_id(3, 1), 17
    found.sums.target.writers = Counter({kind_of_writer(mirror): 14, kind_of_writer(client): 6})
    one = report(found, sources={3: "the-source"})
    assert one["origins"] == {"the-source": 14, "t": 6}
    words = {"the mirror of link tag 3, from the source, failback epoch 0": 14, "a client": 6}
    assert one["totals"]["target"]["writers"] == words
    shown = page(one, "")
    assert "6 of t, 14 of the-source" in shown
