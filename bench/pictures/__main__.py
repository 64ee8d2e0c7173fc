"""`python -m bench.pictures`: one page of results with pictures, from the reports that are there.

Writes `bench/results/pictures.md` and an SVG file for each picture beside it. What it tells of the machine and of the
commit is the report's. A run on a busy machine is told as one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.pictures.bars import number_of
from bench.pictures.charts import Picture, of_production, of_proxies, spread_of
from bench.process import ROOT

_PAGE: Final = "pictures.md"
_FOLDER: Final = "pictures"


def main() -> int:
    """Read what is there, write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.pictures", description=__doc__)
    parser.add_argument("--production", type=Path, default=ROOT / "build" / "bench-production.json")
    parser.add_argument("--proxies", type=Path, default=ROOT / "build" / "bench.json")
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "results")
    args = parser.parse_args()
    production, proxies = _read(args.production), _read(args.proxies)
    if production is None and proxies is None:
        sys.stderr.write(f"no report: {args.production} and {args.proxies} are not there (run make bench-production)\n")
        return 1
    folder = args.out / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    parts = ["# Results in pictures\n", _INTRODUCTION]
    for title, report, pictures in (
        ("The mirror, in production's shape", production, of_production),
        ("The proxy", proxies, of_proxies),
    ):
        if report is not None:
            parts += section(title, report, _drawn(folder, pictures(report)))
    (args.out / _PAGE).write_text("\n".join(parts), encoding="utf-8")
    sys.stdout.write(f"{args.out / _PAGE}\n")
    return 0


def section(title: str, report: Mapping[str, Any], pictures: Sequence[Picture]) -> list[str]:
    """Heading, what it was measured on, the figures with their bounds, the pictures."""
    parts = [f"## {title}\n", f"{_ran_on(report)}\n"]
    figures = [figure for figure in report["figures"] if figure["key"] and figure["value"] is not None]
    if figures:
        parts += ["| | is | to reach | |", "|---|---|---|---|", *map(_row, figures), ""]
    for name, reason in report["failures"].items():
        parts.append(f"Not measured: {name}: {reason.splitlines()[0]}\n")
    for picture in pictures:
        parts.append(f"![{picture.name}]({_FOLDER}/{picture.name}.svg)\n")
        parts.append(f"{picture.says}\n")
    return parts


def _drawn(folder: Path, pictures: Iterable[Picture]) -> list[Picture]:
    found = list(pictures)
    for picture in found:
        (folder / f"{picture.name}.svg").write_text(picture.svg, encoding="utf-8")
    return found


def _row(figure: Mapping[str, Any]) -> str:
    found, reach = spread_of(figure["value"]), figure["reach"]
    shown, unit = number_of(found.median), {"": "", "x": "×"}.get(figure["unit"], f" {figure['unit']}")
    if found.count > 1:
        shown += f" ({number_of(found.low)}–{number_of(found.high)})"
    if reach is None:
        return f"| {figure['title']} | {shown}{unit} | | |"
    reached = found.median >= reach if figure["at_least"] else found.median <= reach
    bound = f"{'≥' if figure['at_least'] else '≤'} {reach:g}{unit}"
    return f"| {figure['title']} | {shown}{unit} | {bound} | {'reached' if reached else 'not yet'} |"


def _ran_on(report: Mapping[str, Any]) -> str:
    machine, known = report["machine"], report["versions"]
    sizes = report.get("sizes") or report.get("profile") or {}
    load = [one[0] if isinstance(one, list) else one for one in report.get("load_averages", ())]
    before = load[0] if load else 0.0
    busy = f" The machine was **busy** (load average {before:.1f} before): ratios say something, rates do not."
    return (
        f"{report['began'][:10]}, commit {known['commit']}, sizes `{sizes.get('name', '-')}`: {machine['processor']}, "
        f"{machine['cores']} cores for gateway, brokers and load, {machine['memory_gb']:g} GB, {machine['kernel']}; "
        f"Kafka {known['source_kafka']} → {known['target_kafka']}, Python {known['python']}."
        + (busy if before > machine["cores"] / 2 else "")
    )


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


_INTRODUCTION: Final = """\
Made from the JSON of `make bench-production` and `make bench` by `make bench-pictures`. How each is measured, and how
to read it: [bench/README.md](../README.md). A bar is the median of its rounds, the thin line over it the lowest and the
highest. Everything ran on one machine: rates say little of others, ratios within a picture do.
"""


if __name__ == "__main__":
    sys.exit(main())
