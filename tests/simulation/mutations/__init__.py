"""Faults seeded into the shipped code, which the simulation must find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from tests.simulation.mutations.patching import Mutation, Patching


@cache
def mutations() -> Mapping[str, Mutation]:
    """All of them by name, in the order in which they are run."""
    from tests.simulation.mutations import (  # they import the product
        as_one_faults,
        call_off_faults,
        carry_faults,
        cluster_faults,
        cpu_faults,
        cut_off_faults,
        gateway_faults,
        ground_faults,
        group_faults,
        joined_faults,
        mirror_faults,
        owner_faults,
        past,
        rest_faults,
        right_faults,
        topic_faults,
        transaction_faults,
    )

    tables = (
        topic_faults.MUTATIONS,
        group_faults.MUTATIONS,
        gateway_faults.MUTATIONS,
        mirror_faults.MUTATIONS,
        joined_faults.MUTATIONS,
        past.MUTATIONS,
        right_faults.MUTATIONS,
        transaction_faults.MUTATIONS,
        as_one_faults.MUTATIONS,
        call_off_faults.MUTATIONS,
        carry_faults.MUTATIONS,
        cut_off_faults.MUTATIONS,
        rest_faults.MUTATIONS,
        ground_faults.MUTATIONS,
        owner_faults.MUTATIONS,
        cluster_faults.MUTATIONS,
        cpu_faults.MUTATIONS,
    )
    found: dict[str, Mutation] = {}
    for mutation in (each for table in tables for each in table):
        if mutation.name in found:
            raise ValueError(f"two mutations are named {mutation.name!r}: give one another name")
        found[mutation.name] = mutation
    return found


@contextmanager
def patched(name: str) -> Iterator[Patching]:
    """The fault of that name is in the code while the block runs; '' for none. Gives what is known of it.

    Raises:
        KeyError: there is no such mutation.
    """
    patching = Patching()
    try:
        if name:
            mutations()[name].patch(patching)
        yield patching
    finally:
        patching.undo()
