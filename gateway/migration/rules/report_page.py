"""The report of a migration as a page for people: one HTML file without anything from outside. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from gateway.telemetry.html_page import html_page, html_table

SHOWN: Final = 2_000
"""Rows of a table on the page; the rest is in the JSON report."""

_STYLE: Final = """
.PROMOTED, .DONE { color: #116329; } .RUNNING { color: #0a5cad; } .ABORTED { color: #a40e26; }
@media (prefers-color-scheme: dark) { .PROMOTED, .DONE { color: #4ac26b; } .RUNNING { color: #4493f8; }
 .ABORTED { color: #ff8182; } }
"""


def report_page(report: Mapping[str, Any], json_sha256: str) -> str:
    """The page.

    Args:
        report: as `rules/report.py` builds it.
        json_sha256: of the JSON file that the page goes with.
    """
    state = str(report["state"])
    pauses = report["write_pauses_ms"]
    longest = f", the longest write pause {max(pauses)} ms" if pauses else ""
    done = sum(one["stage"] == "PROMOTED" for one in report["applications"])
    body = (
        f'<h1>Migration {escape(report["migration"])}: <span class="{escape(state)}">{escape(state)}</span></h1>',
        f"<p>{done} of {len(report['applications'])} applications are promoted{longest}.</p>",
        "<h2>Applications</h2>",
        _cut(_APPLICATION, [_application(one) for one in report["applications"]]),
        "<h2>Topics</h2>",
        _cut(_TOPIC, [_topic(app["name"], one) for app in report["applications"] for one in app["topics"]]),
        "<h2>Offsets of groups, carried over</h2>",
        _cut(_OFFSET, [row for app in report["applications"] for one in app["groups"] for row in _offsets(one)]),
        "<h2>What was done</h2>",
        _not_kept(report["journal_entries_not_kept"]),
        _cut(_JOURNAL, [_entry(one) for one in report["journal"]]),
        "<h2>Audits</h2>",
        _audits(report["audits"]),
        "<h2>Facts</h2>",
        _facts(report, json_sha256),
    )
    return html_page(f"Migration {report['migration']}: {state}", _STYLE, body)


_APPLICATION: Final = ("Application", "Stage", "Topics", "Groups", "Readiness", "Problems")
_TOPIC: Final = ("Application", "Topic", "State", "Cut over", "Source ends", "Target ends", "Remarks")
_OFFSET: Final = ("Group", "State", "Topic", "Partition", "Source offset", "Target offset", "Rule")
_JOURNAL: Final = ("When", "What", "Application", "Names", "By", "Detail", "Writes paused")


def _application(one: Mapping[str, Any]) -> Sequence[object]:
    ready = "" if one["readiness"] is None else one["readiness"]
    return (one["name"], one["stage"], len(one["topics"]), len(one["groups"]), ready, "; ".join(one["problems"]))


def _topic(application: str, one: Mapping[str, Any]) -> Sequence[object]:
    if one["state"] is None:
        return (application, one["name"], "not mirrored", "", "", "", "")
    last = one["cutovers"][-1] if one["cutovers"] else {"source_ends": [], "target_ends": []}
    remarks = [
        f"{'an unknown number of' if one[key] is None else f'{one[key]:,}'} records {words}"
        for key, words in (
            ("records_lost_before_mirrored", "deleted before they were mirrored"),
            ("records_left_behind", "left behind by a failover"),
            ("records_after_cutover", "came to the source behind the cutover"),
        )
        if one[key] != 0
    ]
    remarks += [] if one["records_left_behind_exact"] else ["the source did not say what a failover left behind"]
    remarks += [one["error"]] if one["error"] else []
    return (
        application,
        one["name"],
        one["state"],
        one["cutover_time"] or "",
        _numbers(last["source_ends"]),
        _numbers(last["target_ends"]),
        "; ".join(remarks),
    )


def _numbers(ends: Sequence[int]) -> str:
    shown = ", ".join(f"{end:,}" for end in ends[:12])
    return shown + (f" and {len(ends) - 12} more" if len(ends) > 12 else "")


def _offsets(one: Mapping[str, Any]) -> Iterable[Sequence[object]]:
    if not one["offsets"]:
        yield (one["name"], one["state"] or "not declared", "", "", "", "", "")
    for each in one["offsets"]:
        yield (
            one["name"],
            one["state"],
            each["topic"],
            each["partition"],
            f"{each['source_offset']:,}",
            f"{each['target_offset']:,}",
            each["rule"],
        )


def _entry(one: Mapping[str, Any]) -> Sequence[object]:
    names = ", ".join(one["names"][:8]) + (f" and {len(one['names']) - 8} more" if len(one["names"]) > 8 else "")
    pause = "" if one["pause_ms"] is None else f"{one['pause_ms']} ms"
    return (one["time"], one["what"], one["application"], names, one["by"], one["detail"], pause)


def _not_kept(count: int) -> str:
    return f"<p>{count:,} older entries are not kept.</p>" if count else ""


def _audits(audits: Sequence[Mapping[str, Any]]) -> str:
    if not audits:
        return "<p>None was given: <code>lockgate report create --audit FILE</code>.</p>"
    heads = ("Verdict", "Began", "Sample", "Topics", "Cut over since", "Partitions", "Different", "Digest", "SHA-256")
    rows = [
        (
            one["verdict"],
            one["started"],
            f"{one['sample']:.0%}" if one["sample"] >= 0.01 else f"{one['sample']:.2%}",
            ", ".join(one["topics"]),
            ", ".join(one["cut_over_since"]),
            one["partitions"],
            one["different_partitions"],
            one["digest"],
            one["report_sha256"],
        )
        for one in audits
    ]
    return html_table(heads, rows)


def _facts(report: Mapping[str, Any], json_sha256: str) -> str:
    rows = (
        ("Link", report["link"]),
        ("Source cluster", report["source_cluster_id"]),
        ("Target cluster", report["target_cluster_id"]),
        ("Applied by", report["applied_by"]),
        ("First applied", report["created"] or ""),
        ("Report made", report["made"]),
        ("Gateways", ", ".join(report["gateways"])),
        ("Versions", ", ".join(f"{name} {version}" for name, version in report["versions"].items())),
        ("SHA-256 of the JSON report", json_sha256),
    )
    return html_table((), rows)


def _cut(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    more = f"<p>{len(rows) - SHOWN:,} more rows are in the JSON report.</p>" if len(rows) > SHOWN else ""
    return html_table(heads, rows[:SHOWN]) + more
