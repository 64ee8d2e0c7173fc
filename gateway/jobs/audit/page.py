"""The report of an audit as a page for people: one HTML file that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from gateway.jobs.audit.verdict import Verdict

SHOWN: Final = 2000
"""Partitions on the page; those that are not identical come first."""

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1b1f24; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } caption { text-align: left; color: #57606a; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #d0d7de; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
code, pre { font: 12px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; white-space: pre-wrap; }
.IDENTICAL { color: #116329; } .INCOMPLETE { color: #7d4e00; } .DIVERGED { color: #a40e26; }
.verdict { font-weight: 600; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; }
 .IDENTICAL { color: #4ac26b; } .INCOMPLETE { color: #d4a72c; } .DIVERGED { color: #ff8182; }
 th, td { border-color: #30363d; } caption { color: #8b949e; } }
"""


def page(report: Mapping[str, Any], json_sha256: str) -> str:
    """The page.

    Args:
        report: `Report.to_dict()`.
        json_sha256: of the JSON file that the page goes with.
    """
    verdict = escape(report["verdict"])
    shown, note = _shown(report["partitions"])
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Audit: {verdict}</title><style>{_STYLE}</style></head><body>",
            f'<h1>Audit: <span class="{verdict}">{verdict}</span></h1>',
            _facts(report, json_sha256),
            "<h2>Partitions</h2>",
            _partitions(shown),
            note,
            *_divergences(shown),
            "<h2>How it was compared</h2><ol>",
            *(f"<li>{escape(step)}</li>" for step in report["method"]),
            "</ol></body></html>\n",
        )
    )


def _facts(report: Mapping[str, Any], json_sha256: str) -> str:
    totals, sample, speed = report["totals"], report["sample"], report["speed"]
    whole = sample["fraction"] >= 1
    rows = (
        ("Source cluster", _cluster(report["source"])),
        ("Target cluster", _cluster(report["target"])),
        ("Topics", ", ".join(report["topics"])),
        ("From", report["started"]),
        ("To", report["finished"]),
        ("Compared", "every batch" if whole else f"a sample of {sample['fraction']:g}, seed {sample['seed']}"),
        ("Offsets", report["offsets"]),
        ("Batches", f"{totals['source_batches']:,} on the source, {totals['equal_batches']:,} equal by digest"),
        ("Records", f"{totals['source_records']:,} on the source, {totals['target_records']:,} on the target"),
        ("Compared one by one", f"{totals['decoded']:,} records, {totals['different']:,} different"),
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


def _cluster(facts: Mapping[str, Any]) -> str:
    return f"{facts['cluster_id']} ({facts['bootstrap_servers']}, {facts['brokers']} broker(s))"


def _shown(partitions: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], str]:
    """The rows of the page, those that are not identical first, and a word on those left out."""
    worst_first = sorted(partitions, key=lambda one: one["verdict"] == Verdict.IDENTICAL)
    left_out = len(partitions) - SHOWN
    note = f"<p>{left_out:,} more partitions are in the JSON report.</p>" if left_out > 0 else ""
    return worst_first[:SHOWN], note


def _partitions(partitions: Iterable[Mapping[str, Any]]) -> str:
    head = ("Topic", "Partition", "Result", "Offsets compared", "Batches", "Records", "Digest source / target")
    rows = []
    for one in partitions:
        notes = "".join(f"<br><small>{escape(note)}</small>" for note in one["notes"])
        digests = f"<code>{one['source_digest']}<br>{one['target_digest']}</code>"
        rows.append(
            f'<tr><td>{escape(one["topic"])}</td><td class="n">{one["partition"]}</td>'
            f'<td class="verdict {one["verdict"]}">{escape(one["sentence"])}{notes}</td>'
            f'<td class="n">{one["compared"]["start"]}–{one["compared"]["end"]}</td>'
            f'<td class="n">{one["source_batches"]:,}</td><td class="n">{one["source_records"]:,}</td>'
            f"<td>{digests}</td></tr>"
        )
    heads = "".join(f"<th>{name}</th>" for name in head)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _divergences(partitions: Iterable[Mapping[str, Any]]) -> list[str]:
    found = []
    for one in partitions:
        first = one["first_divergence"]
        if first is None:
            continue
        found.append(f"<h2>First divergence of {escape(one['topic'])}-{one['partition']}: {first['difference']}</h2>")
        found.append("<table><tr><th>Source</th><th>Target</th></tr><tr>")
        for side in ("source", "target"):
            text = "no record" if first[side] is None else json.dumps(first[side], indent=1, ensure_ascii=False)
            found.append(f"<td><pre>{escape(text)}</pre></td>")
        found.append("</tr></table>")
    return found
