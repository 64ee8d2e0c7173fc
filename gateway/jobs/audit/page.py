"""The report of an audit as a page for people: one HTML file that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from gateway.jobs.audit.sums import sum_lines
from gateway.jobs.audit.verdict import AuditVerdict
from gateway.telemetry.html_page import html_page

SHOWN: Final = 2000
"""Partitions on the page; those that are not identical come first."""

_GOOD: Final = (AuditVerdict.IDENTICAL, AuditVerdict.IN_SAMPLE, AuditVerdict.EMPTY)

_STYLE: Final = """
.sides { table-layout: fixed; }
.IDENTICAL { color: #116329; } .EMPTY { color: #57606a; } .INCOMPLETE { color: #7d4e00; } .DIFFERENT { color: #a40e26; }
.verdict { font-weight: 600; } .sums { font-variant-numeric: tabular-nums; }
@media (prefers-color-scheme: dark) {
 .IDENTICAL { color: #4ac26b; } .INCOMPLETE { color: #d4a72c; } .DIFFERENT { color: #ff8182; }
 .EMPTY { color: #8b949e; } }
"""


def page(report: Mapping[str, Any], json_sha256: str) -> str:
    """The page.

    Args:
        report: `Report.to_dict()`.
        json_sha256: of the JSON file that the page goes with.
    """
    verdict = report["verdict"]
    shown, note = _shown(report["partitions"])
    body = (
        f'<h1>Audit: <span class="{_class(verdict)}">{escape(verdict)}</span></h1>',
        _headline(report["partitions"]),
        "<h2>Sums</h2>",
        _sums(report["totals"]),
        *_differences(shown),
        "<h2>Partitions</h2>",
        _partitions(shown),
        note,
        "<h2>What was compared</h2>",
        _facts(report, json_sha256),
        "<h2>How it was compared</h2><ol>",
        *(f"<li>{escape(step)}</li>" for step in report["method"]),
        "</ol>",
    )
    return html_page(f"Audit: {verdict}", _STYLE, body)


def _class(verdict: str) -> str:
    return verdict.split(maxsplit=1)[0]


def _headline(partitions: Sequence[Mapping[str, Any]]) -> str:
    """How many partitions have which verdict, and the worst one in a sentence."""
    verdicts: dict[str, int] = {}
    partitions = sorted(partitions, key=_badness)
    for one in partitions:
        verdicts[one["verdict"]] = verdicts.get(one["verdict"], 0) + 1
    counts = ", ".join(f"{count:,} {escape(verdict)}" for verdict, count in verdicts.items())
    bad = next(iter(partitions), None)
    if bad is None or bad["verdict"] in _GOOD:
        return f"<p>Partitions: {counts}.</p>"
    name = f"{bad['topic']}-{bad['partition']}"
    return f'<p>Partitions: {counts}.</p><p class="verdict">{escape(name)}: {escape(bad["sentence"])}</p>'


def _badness(partition: Mapping[str, Any]) -> int:
    worst = (AuditVerdict.DIFFERENT, AuditVerdict.INCOMPLETE)
    verdict = partition["verdict"]
    return worst.index(verdict) if verdict in worst else len(worst)


def _sums(totals: Mapping[str, Any]) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in sum_lines(totals))
    closes = "Every sum closes." if totals["closes"] else "Not every sum closes; see the partitions."
    return f'<ul class="sums">{lines}</ul><p>{closes}</p>'


def _facts(report: Mapping[str, Any], json_sha256: str) -> str:
    totals, sample, speed = report["totals"], report["sample"], report["speed"]
    rows = (
        ("Source cluster", _cluster(report["source"])),
        ("Target cluster", _cluster(report["target"])),
        ("Topics", ", ".join(report["topics"])),
        ("From", _provenance(report.get("provenance", {}))),
        ("On the target by origin", _counts(report["origins"])),
        ("On the target by writer", _counts(totals["target"]["writers"])),
        ("Began", report["started"]),
        ("Ended", report["finished"]),
        (
            "Compared",
            "all"
            if sample["fraction"] >= 1
            else f"a sample of {sample['fraction']:g}, seed {sample['seed']}: {totals['source']['records']:,} records",
        ),
        ("Offsets", report["offsets"]),
        ("Batches", f"{totals['source']['batches']:,} on the source, {totals['equal_batches']:,} equal byte by byte"),
        ("Compared one by one", f"{totals['decoded']:,} records"),
        ("Took", f"{speed['seconds']:g} s on {speed['cores']} cores"),
        ("Digest of all", report["digest"]),
        ("SHA-256 of the JSON report", json_sha256),
        ("Versions", ", ".join(f"{name} {version}" for name, version in report["versions"].items())),
    )
    return (
        "<table>"
        + "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
        + "</table>"
    )


def _provenance(topics: Mapping[str, Any]) -> str:
    """From where the records are: the source, and in a chain the clusters before it."""
    ways = {
        f"link {one['link']} (tag {one['link_tag']}) from cluster {one['source_cluster_id']}"
        + "".join(f", which has it by link {up['link']} from {up['cluster_id']}" for up in one["upstream"])
        for one in topics.values()
    }
    return "; ".join(sorted(ways)) or "not known: no link was named"


def _counts(records: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} of {name or 'a link that is not known'}" for name, count in records.items()) or "none"


def _cluster(facts: Mapping[str, Any]) -> str:
    return f"{facts['cluster_id']} ({facts['bootstrap_servers']}, {facts['brokers']} broker(s))"


def _shown(partitions: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], str]:
    """The rows of the page, the worst first, and a word on those left out."""
    left_out = len(partitions) - SHOWN
    note = f"<p>{left_out:,} more partitions are in the JSON report.</p>" if left_out > 0 else ""
    return sorted(partitions, key=_badness)[:SHOWN], note


def _partitions(partitions: Iterable[Mapping[str, Any]]) -> str:
    head = ("Topic", "Partition", "Result, and the sums", "Source offsets", "Target offsets")
    rows = []
    for one in partitions:
        asked = "".join(
            f'<td class="n">{one["asked"][side]["start"]:,}–{one["asked"][side]["end"]:,}</td>' for side in _SIDES
        )
        lines = [*map(escape, sum_lines(one)), *_digests(one)]
        rows.append(
            f'<tr><td>{escape(one["topic"])}</td><td class="n">{one["partition"]}</td>'
            f'<td><span class="verdict {_class(one["verdict"])}">{escape(one["sentence"])}</span>'
            f'<br><small class="sums">{"<br>".join(lines)}</small></td>{asked}</tr>'
        )
    heads = "".join(f"<th>{name}</th>" for name in head)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


_SIDES: Final = ("source", "target")


def _digests(one: Mapping[str, Any]) -> list[str]:
    """Of what was read; a side without records has none."""
    found = [(side, one[f"{side}_digest"]) for side in _SIDES]
    return [f"digest of the {side}<br><code>{escape(digest)}</code>" for side, digest in found if digest]


def _differences(partitions: Iterable[Mapping[str, Any]]) -> list[str]:
    found = []
    for one in partitions:
        first = one["first_difference"]
        if first is None:
            continue
        name = f"{escape(one['topic'])}-{one['partition']}"
        what = f"{escape(first['difference'])}; {one['different']:,} in all"
        found.append(f"<h2>First difference of {name}: {what}</h2>")
        found.append('<table class="sides"><tr><th>Source</th><th>Target</th></tr><tr>')
        for side in _SIDES:
            text = "no record" if first[side] is None else json.dumps(_short(first[side]), indent=1, ensure_ascii=False)
            found.append(f"<td><pre>{escape(text)}</pre></td>")
        found.append("</tr></table>")
    return found


def _short(record: Any) -> Any:
    """Without the base64 of what is shown as text; the JSON report has it."""
    if isinstance(record, dict):
        return {name: _short(value) for name, value in record.items() if name != "base64" or "text" not in record}
    return [_short(one) for one in record] if isinstance(record, list) else record
