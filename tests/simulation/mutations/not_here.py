"""What cannot be found by the simulation, and why. Each is proved elsewhere, as its reason says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NOT_HERE: Final[Mapping[str, str]] = {
    "slow source": "no fault: it gives what forgets writes under a write pause something to forget",
    "past: a broken rule of a failback ends it silently": "what `describe` says is not judged",
    "past: 30 s of writes to a leader that is dead": "how long clients wait is not judged",
    "past: clients drop the coordinators they know": "likewise: they find them again",
    "past: memory that malloc holds free": "memory is not simulated; `make soak` measures it",
    "past: an abort of a transaction that never began": "who tries again is served, which is all that is judged; "
    "tests/unit/proxy/handlers/transactions/test_end_txn.py has it",
    "past: offsets of a transaction refused for good": "likewise: the pipeline begins anew, and processes all once",
    "past: offsets of a translated topic after a failover of its failback": "no group reads such a topic in these "
    "lives; tests/unit/mirror/offset_map and tests/exact have it",
    "past: a dead process of a name is taken for the younger one": "the JoinGroup of the dead one must arrive behind "
    "its successor's; tests/unit/fleet/test_registry.py has it",
    "past: a transaction without records outlives the cutover": "its client must be gone with its gateway, between the "
    "adding of a partition and the first batch; tests/integration/promote/test_topic_promote.py has it",
    "past: any place confirms a commit whose transaction ended unseen": "nothing ends one unseen but for the faults "
    "that are seeded along with it here (a commit is confirmed by an older transaction); "
    "tests/unit/proxy/handlers/transactions/test_end_txn.py has it alone",
    "hole A7: a failover behind a demote goes by what was read before the promote": "the source must be gone from the "
    "very end of the demote on, and a fleet that leads on must not ask it once; "
    "tests/unit/groups/test_failover.py (behind_a_demote) has it",
    "hole A10: as one, home, is refused for ever once a mirror was deleted": "no life here deletes a mirror that a "
    "promoted group has read; tests/unit/groups/rules/test_moves.py has it",
    "hole A12: a look is as old as its last answer": "a member must come and commit nothing between two answers of the "
    "last look; tests/unit/groups/test_promote.py (as_old_as_its_question) has it",
    "hole A16: who asks for offsets alone counts as a member": "nobody assigns partitions to itself here, and stays; "
    "tests/unit/groups/test_promote.py (a_lag_exporter, who_commits_seldom) and "
    "tests/unit/groups/rules/test_silences.py have it",
    "call off: home, a transaction is refused at a gate still shut": "a gateway must end the write pause some moments "
    "before it opens the gate, and a transaction begin between the two: one run met it, and none of 130 since; "
    "tests/unit/proxy/transactions/test_group_pauses.py (gate_alone_is_shut) has it",
    "past: time stamps of a clock an hour ahead are refused": "the broker model takes any time stamp",
    "cpu: producer tables never age": "a quarter of an hour of a run is too much CPU, and a table has a bound besides; "
    "tests/unit/mirror/partition/rules/test_producer_table.py has it",
    "cpu: a large change is coded in one turn": "packed, two partitions take a tenth of what is allowed; "
    "tests/unit/state/test_producer_tables.py has many",
}

OPEN: Final[Mapping[str, str]] = {}
"""What could be found here, and no run does yet, with what the runs lack. They count as seeded."""
