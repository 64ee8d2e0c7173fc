"""Promote: pauses writes, drains the mirror, cuts the topic over to the target.

`cutover/promote/rules/promote.py` is a pure resolver: a snapshot in, the next step out; `cutover/promote/run.py`
carries the step out (`cutover/promote/pause.py` commands the gateways) and `cutover/promote/gather.py` takes the next
snapshot. ACTIVE → PENDING_STOPPED → lag small → the origin's topic configs read, the target's ACLs brought up to date →
every gateway, the leader included, has paused writes and acknowledged that none is in flight → the source's end stands
still → mirrored to that end → every partition, in this process, says in one answer where it stands on both logs and
which producer batches it knows (`mirror/rules/copy_ends.py`) → the mirror stops, and the copy is read: it ends there,
on at least two in-sync replicas if it has two, and the origin still has as many partitions as the mirror → STOPPED,
made of that answer, is written to the state topic → route SWITCHED, the waiting writes go to the target → the rest of
the topic's ACLs (`access/`). Lists of a record with an entry per partition are complete or empty; any other length is
an error where it is read (`state/per_partition.py`). Anything unexpected before STOPPED ends in ACTIVE again. Until
then an operator can call the promote off, too (`cutover/promote/call_off.py`): the set named in the records gets a name
that no topic has, so any leader finds the set incomplete and gives it up; the cutover checks for it once more right
before its record is written. A RUNNING migration that would promote the topics again is PAUSED first
(`migration/migrations.py`).

One object alone decides where a topic's writes go at a gateway: `WritePause`
(`cutover/write_pause/rules/write_pause.py`), from the record as read, the leader's commands (epoch, term), the
assignment and the lease. Routes carry it, so every write asks it; leader and follower pause and resume it by the same
calls (`cutover/write_pause/follower.py`), the promote's snapshot consists of the gateways' answers, and the exhaustive
search (`tests/model`) runs this very class.
"""
