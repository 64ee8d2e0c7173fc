"""`python -m tests.mutations`: seeds every fault, and says in its last line how many of them were found."""

from __future__ import annotations

import sys

import pytest


class Count:
    """Counts the tests that seed a fault, and those of them that passed."""

    def __init__(self) -> None:
        self.seeded: set[str] = set()
        self.silent: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of one test ended."""
        if "::test_a_seeded_fault_" in report.nodeid:
            self.seeded.add(report.nodeid)
            if not report.passed:
                self.silent.add(report.nodeid)


def main(arguments: list[str]) -> int:
    """Run the suite with more arguments for pytest."""
    count = Count()
    code = pytest.main(["tests/mutations", *arguments], plugins=[count])
    found = len(count.seeded) - len(count.silent)
    code = int(code) or (1 if count.silent or not count.seeded else 0)
    sys.stdout.write(f"mutations: {'PASS' if not code else 'FAIL'} seeded={len(count.seeded)} caught={found}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
