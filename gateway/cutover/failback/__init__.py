"""Failback: reverse, truncate-and-restore, and the promote that takes a topic back to the source.

1. `cutover/failback/operations.py` reads the failback destination (`cutover/failback/destination.py`): is it the same
   topic, does it end where it ended at the cutover, and with the same last batch
   (`mirror/partition/rules/last_batch.py`)? Then PENDING_SYNCHRONIZE is stored, and a `FailbackRun` asks the resolver
   `cutover/failback/rules/failback.py` for one step after the other, as a promote does. A restart begins such a run for
   every record in a state of a failback.
2. The failback destination gets the configs of a copy (its own are stored first), the record says `direction =
   REVERSE`, and the engine starts the mirror: `mirror/rules/period.py` turns a record into origin, copy and producer
   id, so `mirror/` and `mirror/partition/rules/partition.py` need not know which cluster is which.
   `mirror/engine/destination.py` has one set of appenders per cluster.
3. Routes of such a topic are `counted`: `proxy/produce/counted_writes.py` counts writes in flight to the target,
   including those passed on untouched a moment before, so that a pause can wait for them.
4. The failback is a promote: `cutover/failback/rules/failback_promote.py` shows record and routes to the promote's
   resolver with the directions exchanged. Its cutover is the record with `direction = FORWARD` and the next failback
   epoch (`failback_epoch`); PENDING_MIRROR then restores the source's configs, lifts the target's, and starts the
   mirror forward at the target's log end (`handed_over_at`).
5. Failover (`cutover/failover/operations.py`) first ends a running promote of the topic, or waits until it is known
   that it has cut over. Then a `FailoverRun` asks `cutover/failover/rules/failover.py` for one step after the other:
   pause writes for a moment, stop the mirror, and store STOPPED with the number of records that only the source is
   known to have. After the stop the copy's content is read from the copy itself. Every gateway drops writes that the
   source has not answered in time (`proxy/produce/cutover_connections.py`) before the source's ends are read for the
   last time: so acknowledged records are counted, and no answer for records left behind is relayed. Each write pause
   belongs to one operation (`cutover/write_pause/rules/write_pause.py`); if the outcome of its commit is unknown, it
   stays until it is known (`until_known` in `state/store.py`). truncate-and-restore is the same resolver plus a
   deletion: it deletes only the very topic that the record names (by id), after storing its configs. DeleteTopics goes
   by topic id (KIP-516), so a deletion that lands late cannot delete the new topic. A source without topic ids (before
   2.8) deletes by name; there a deletion without an answer ends in FAILED, and no topic is created under that name.

After a promote a mirror back may begin automatically (`cutover/failback/undo.py`): once a second
`cutover/failback/rules/undo.py` decides from each record and the clock whether it begins, is kept, or ends, and the
operations above do it. `migration/keeps.py` knows who asked for it: a link or a migration file.

To reverse a topic that is still mirrored is a promote whose first write says what follows (`then_reverse`);
`cutover/failback/reversals.py` continues when the topic is STOPPED, in this gateway or at the next leader.

Creating, deleting and repairing one mirror (`topics/create.py`, `delete.py`, `repair.py`) also store an intent in its
record, and every later step may be done twice: topics are identified by id. `topics/rules/` decides what may be
deleted, what can be repaired, and when a copy counts as gone. `topics/copy_watch.py` checks that the copies are still
the mirrors' own.

**Why failback epochs.** A broker remembers the last sequence of each producer id per partition. A producer that wrote
1..10 to the source, 11..20 to the target and fails back with 21 would get OUT_OF_ORDER_SEQUENCE_NUMBER from a source
that remembers 10. A broker accepts an unknown id at any sequence. So the id in a topic's logs is `id + epoch · 2^51`,
and each failback begins a failback epoch; the mirrors' own ids are numbered the same way. Brokers remember ids whether
or not a mirror has a record. So when the store deletes a mirror it keeps the epoch in the same transaction
(`state/failback_records.py`): such a topic still has a route, without a link, and a new mirror of it uses the same
epoch, or the next one if clients have written to the target since. The epoch may be forgotten only when the topic's id
is gone from the target (`topics/failback_epochs.py`). Retries over a cutover are answered from the producer table that
the cutover hands over (packed, `state/producer_entries.py`: no object per batch), joined with the one before
(`cutover/failback/rules/failback_promote.py` `handed_over`). Tables are stored next to the mirror's record, not in it:
in records of 256 KB that the store writes once, in the transaction of the first record that names them
(`state/producer_tables.py`, `state/table_writes.py`). Large ones are encoded, packed and decoded in slices
(`state/slices.py`), so that no turn of any gateway's loop is long. They are deleted when no client retries any more
(`cutover/spent_tables.py`). Each gateway checks writes against a table for 15 minutes from when it first saw the
cutover (`cutover/write_pause/rules/cutovers_seen.py`), never by the time of day in a record.
"""
