"""`python -m tests.audit_mutations`: seeds every difference in every mode and state, and says under which name each was
found. `-q`: only what was not found, and the last line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from tests.audit_mutations.equals import pairs, run
from tests.audit_mutations.seeds import MUTATIONS


class Outcome(NamedTuple):
    """What the audit said of one pair of logs."""

    name: str
    scene: str
    is_right: bool
    said: str


def seeded() -> Iterator[Outcome]:
    """Every difference, in each of its scenes."""
    for mutation in MUTATIONS:
        for scene in mutation.scenes:
            finding = mutation.run(scene)
            first = "" if finding.sums.first is None else f"{finding.sums.first.kind}, {finding.sums.different} in all"
            said = f"{finding.verdict}: {first or '; '.join(finding.reasons)}"
            yield Outcome(mutation.name, scene, mutation.is_found(finding), said)


def equal() -> Iterator[Outcome]:
    """Every equal pair."""
    for name, make in pairs().items():
        scene, _, variation = name.partition(": ")
        finding = run(make())
        yield Outcome(variation or name, scene, finding.verdict == "IDENTICAL" and finding.closes, finding.sentence)


def main(arguments: list[str]) -> int:
    """Exit code 0 when every difference was found and every equal pair is said to be one."""
    quiet = "-q" in arguments
    counts = {}
    for title, outcomes in (("seeded", seeded()), ("equal", equal())):
        right = total = 0
        for outcome in outcomes:
            total += 1
            right += outcome.is_right
            if not quiet or not outcome.is_right:
                mark = "ok  " if outcome.is_right else "FAIL"
                sys.stdout.write(f"{mark} {title}  {outcome.name}  [{outcome.scene}]  {outcome.said}\n")
        counts[title] = (total, right)
    (seeds, found), (alike, said) = counts["seeded"], counts["equal"]
    passed = seeds == found and alike == said and len(MUTATIONS) >= 40 and alike >= 40
    verdict = "PASS" if passed else "FAIL"
    sys.stdout.write(f"audit-mutations: {verdict} seeded={seeds} found={found} equal={alike} said_equal={said}\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
