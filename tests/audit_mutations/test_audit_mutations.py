"""Every seeded difference is found by its name, in each mode and state; every equal pair is said to be IDENTICAL."""

from __future__ import annotations

import pytest

from tests.audit_mutations.equals import pairs, run
from tests.audit_mutations.mutation import Mutation
from tests.audit_mutations.seeds import MUTATIONS


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_difference_is_found(mutation: Mutation) -> None:
    assert mutation.scenes
    for scene in mutation.scenes:
        finding = mutation.run(scene)
        assert mutation.is_found(finding), f"{scene}: {finding.sentence}"


@pytest.mark.parametrize("name", pairs())
def test_an_equal_pair_is_identical(name: str) -> None:
    for parts in (1, 3, 40):
        finding = run(pairs()[name](), parts=parts)
        assert (finding.verdict, finding.closes) == ("IDENTICAL", True), finding.sentence


def test_names_are_told_apart() -> None:
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names) >= 40
    assert len(pairs()) >= 40
