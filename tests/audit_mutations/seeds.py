"""All seeded differences."""

from __future__ import annotations

from typing import Final

from tests.audit_mutations.mutation import Mutation
from tests.audit_mutations.seeded_keys import KEYS
from tests.audit_mutations.seeded_logs import LOGS
from tests.audit_mutations.seeded_records import RECORDS

MUTATIONS: Final[tuple[Mutation, ...]] = (*RECORDS, *LOGS, *KEYS)
