"""Promote: writes paused, the mirror drained, the topic cut over to the target.

`cutover/promote/rules/promote.py` is a pure resolver: a snapshot in, the next step out; `cutover/promote/run.py`
carries the step out (`cutover/promote/pause.py`: what is asked of every gateway) and `cutover/promote/gather.py`
takes the next snapshot. ACTIVE → PENDING_STOPPED → lag small → the origin's topic configs read, the target's ACLs
brought up to date → every gateway, the leader among them, has paused and acknowledged it with nothing in flight → the
source's end stands still → mirrored to that end → every partition, in this process, says where it stands on both logs
and what it knows of producers, in one answer (`mirror/rules/copy_ends.py`) → the mirror stops, and the copy is read:
it ends there, on two replicas in sync at least where it has two, and the origin has as many partitions as the mirror
still → STOPPED, made of that answer, is written to the state topic → route SWITCHED, the writes that waited go to the
target → the rest of the topic's ACLs (`access/`). Lists of a record with an entry per partition are whole or empty;
any other length is an error where it is read (`state/per_partition.py`). Anything unexpected before STOPPED ends in
ACTIVE again. Until then it can be called off, too (`cutover/promote/call_off.py`): a name that no topic has comes
into the set that the records name, so whoever leads finds the set incomplete, and gives it up; the cutover asks for
it once more right before its record is written. A RUNNING migration that would promote the topics again is PAUSED
first (`migration/migrations.py`).

Where a topic's writes go at a gateway is told by one object alone, `WritePause`
(`cutover/write_pause/rules/write_pause.py`): from the record as read, the leader's commands (epoch, term), the
assignment and the lease. Routes carry it, so every write asks it; leader and follower pause and resume it by the same
calls (`cutover/write_pause/follower.py`), the promote's snapshot is made of what the gateways answered, and the
exhaustive search (`tests/model`) runs this very class.
"""
