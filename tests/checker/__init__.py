"""Judges a recorded history of clients and migrations: was anything lost, doubled, reordered, or read too early?

`python -m tests.checker HISTORY.jsonl`. The form of a history is in `tests/checker/FORMAT.md`. The classes and their
rules follow those of Jepsen's Kafka workload (jepsen-io/jepsen, `jepsen.tests.kafka`), for two clusters instead of one:

- lost-write: acknowledged, and not where the partition is written now, although something later was read there.
- duplicate: the same record at two offsets of one cluster's log.
- inconsistent-offsets: one offset that held two records; in a topic that preserves offsets, two offsets of one record.
- aborted-read: a reader of committed data got a record whose write failed or was aborted.
- precommitted-read: a transaction read its own record, or a record was read before it was sent.
- never-written: a record that nobody sent.
- int-poll-skip, int-nonmonotonic-poll: within one operation, records left out, or behind one another's back.
- poll-skip, nonmonotonic-poll: the same from one operation of a reader to its next; for a group, from its committed
  offset to what the next owner of the partition reads first, across clusters too.
- int-nonmonotonic-send, nonmonotonic-send: two records of one producer in another order than it sent them.
- unseen: acknowledged, and never read by anybody.
- divergence: two records in another order on the two clusters, or one missing in the middle of one of them,
  or anywhere in the copy of a mirror that said at the end that it has everything.
- gated-read: a group read on a cluster on which it was not (or no longer) to read.
- split-write: a partition was written on the cluster that it had left, or that it had not come to yet.

A write whose outcome is unknown may be there or not, once. Everything is linear in the length of the history, but for
sorting each log.
"""
