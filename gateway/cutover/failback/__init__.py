"""Failback: reverse, truncate-and-restore, and the promote that brings a topic home.

1. `cutover/failback/operations.py` reads the failback destination (`cutover/failback/destination.py`): the same
   topic, ending where it ended at the cutover, and with the same last batch (`mirror/partition/rules/last_batch.py`)?
   Then PENDING_SYNCHRONIZE is stored, and a `FailbackRun` asks the resolver `cutover/failback/rules/failback.py` for
   one step after the other, as a promote does. A restart begins such a run for every record that is in a state of a
   failback.
2. The failback destination gets the configs of a copy (its own ones are stored first), the record says `direction =
   REVERSE`, and the engine starts the mirror: `mirror/rules/period.py` turns a record into origin, copy and producer
   id, so that `mirror/` and `mirror/partition/rules/partition.py` need not know which cluster is which.
   `mirror/engine/destination.py` has one set of appenders per cluster.
3. Routes of such a topic are `counted`: `proxy/produce/counted_writes.py` counts what is in flight to the target,
   including what was passed on untouched a moment before, so that a pause can wait for it.
4. The failback is a promote: `cutover/failback/rules/failback_promote.py` shows record and routes to the resolver of
   promotes the other way round. Its cutover is the record with `direction = FORWARD` and the next failback epoch
   (`failback_epoch`); PENDING_MIRROR then sets the source's configs back, lifts the target's, and starts the mirror
   forward where the target's log ends (`handed_over_at`).
5. Failover (`cutover/failover/operations.py`) first ends a promote of the topic that is under way, or waits until it
   is known that it has cut over. Then a `FailoverRun` asks `cutover/failover/rules/failover.py` for one step after
   the other: pause writes for a moment, stop the mirror, and store STOPPED with what the source is known to have
   alone. What the copy has is read from the copy itself after the stop. What the source has not answered in time is
   dropped at every gateway (`proxy/produce/cutover_connections.py`) before the source's ends are read for the last
   time: what is acknowledged is counted, and no answer for records that stay behind is relayed. Each write pause is
   one operation's (`cutover/write_pause/rules/write_pause.py`); one whose commit has an unknown outcome stays until
   it is known (`until_known` in `state/store.py`). truncate-and-restore is the same resolver with a deletion in it:
   only the very topic that the record names (by id) is ever deleted, after its configs were stored: DeleteTopics goes
   by topic id (KIP-516), so that a deletion that lands late cannot take the new topic. A source without topic ids
   (before 2.8) deletes by name; there a deletion without an answer ends in FAILED, and nothing is created under it.

After a promote a mirror back may begin by itself (`cutover/failback/undo.py`): once a second
`cutover/failback/rules/undo.py` says of each record, and the clock, whether it is to begin, to be kept, or to end,
and the operations above do it. Who asks for it, a link or a migration file, is known to `migration/keeps.py`.

A reverse of a topic that is mirrored still is a promote whose first write says what follows (`then_reverse`);
`cutover/failback/reversals.py` goes on when the topic is STOPPED, in this gateway or the next.

Creating, deleting and repairing one mirror (`topics/create.py`, `delete.py`, `repair.py`) store an intent in its
record, too, and each step behind it may be done twice: a topic goes by its id only. What may be deleted, what can be
repaired, and when a copy counts as gone is in `topics/rules/`. `topics/copy_watch.py` looks whether the copies are
still the mirrors' own.

**Why failback epochs.** A broker remembers the last sequence of each producer id per partition. A producer that wrote
1..10 to the source, 11..20 to the target and fails back with 21 would get OUT_OF_ORDER_SEQUENCE_NUMBER from a source
that remembers 10. An unknown id is taken at any sequence. So the id that stands in a topic's logs is `id + epoch ·
2^51`, and each failback begins a failback epoch; the mirrors' own ids are numbered the same way. Brokers remember,
whether a mirror has a record or not. So when the store deletes a mirror it keeps the epoch in the same transaction
(`state/failback_records.py`): such a topic still has a route, of no link, and a mirror that is made for it again goes
on with the epoch, or with the next one where clients have written the target since. Only when the topic's id is gone
from the target may it be forgotten (`topics/failback_epochs.py`). Retries over a cutover are answered from the
producer table that is handed over with it (packed, `state/producer_entries.py`: no object per batch, however many
there are), joined with the one before (`cutover/failback/rules/failback_promote.py` `handed_over`). Tables travel
beside the mirror's record, not in it: in records of 256 KB that the store writes in the transaction of the first
record that names them, and never again (`state/producer_tables.py`, `state/table_writes.py`). What is large is
encoded, packed and decoded in slices (`state/slices.py`), so that no turn of any gateway's loop is long. They are
forgotten when nobody retries any more (`cutover/spent_tables.py`). Each gateway checks writes against it for 15
minutes from when it first saw the cutover (`cutover/write_pause/rules/cutovers_seen.py`), never by the time of day
that a record names.
"""
