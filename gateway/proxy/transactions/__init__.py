"""Transactional producers: their identity on each cluster, and the cluster on which their transactions live.

A transaction lives on one cluster, from its first request to its end: the one on which its topics are written when it
begins. On each cluster its producer has a separate producer id and epoch, from that cluster's transaction coordinator.

1. `handlers/transactions/init_producer_id.py`: the target answers first; its identity is the one the client holds.
   While topics are mirrored, the transactional id is initialised on their sources too, under the link's principal,
   which fences an instance that writes there directly and aborts its open transaction. The identities are written to
   `__lockgate_producers`, a compacted topic on the target, before the client gets its own
   (`proxy/rules/transactional_ids.py` says why they are stored and not derived). Any gateway can serve the next request
   (`proxy/transactions/producer_lookup.py`): it looks up an unknown identity there, and asks the coordinators for the
   producer's open transaction (DescribeTransactions, Kafka 3.0 and later).
2. `handlers/transactions/add_partitions_to_txn.py` → `proxy/rules/transactional_producers.py` decides: all names of
   the request on one side (`proxy/transactions/placement.py`), and on the side of the open transaction; otherwise the
   request is refused with a code on which clients abort, or, if the transaction has a group's offsets, with a fatal
   one. For the target the request passes unchanged. For a source it goes to the source's coordinator under the identity
   there. The decision is repeated right before the request is sent (`adding.py`): a pause that began while rights and
   identity were requested does not know of it.
3. Produce: `proxy/transactions/transactional_produce.py` restamps producer id and epoch of each batch
   (`protocol/batch/stamp.py`) and keeps sequence and transactional bit. Sequences simply continue over the cutover: a
   broker that has never seen a producer id on a partition accepts any first sequence. A marker would make it known,
   too, so no transaction with a mirrored topic begins or ends on the target before its cutover.
4. AddOffsetsToTxn and TxnOffsetCommit follow the group: it commits on the target once it is promoted, on the source
   before.
5. `handlers/transactions/end_txn.py` waits until no Produce of the transaction is in flight, and sends the end once
   to the coordinator that has it. If the answer is lost, the client's connection closes; the client's retry goes to the
   same coordinator, also after the cutover. For a client whose connection has ended nothing more is sent, and any
   connection that may still carry a request of it is closed, the one to the target, too, with the bytes that the kernel
   has not sent yet (`coordinator_calls.py`, `coordinators.py`): the client has retried through another gateway, and a
   late abort would hit its next transaction.

Under a write pause, transactions that have one of the paused topics may end, and no other one may add these topics
(held, then CONCURRENT_TRANSACTIONS). A gateway acknowledges the pause when they have ended and the coordinators report
their markers as written; it also looks for open ones of an earlier process (`proxy/transactions/write_pause.py`). The
leader's last question decides the cutover (`kafka/transactions.py`): no broker may have an incomplete transaction with
the topics. A transaction that outlasts the write pause ends the promote, never the other way round. Topics of one
promote set are paused by one snapshot and switched by one, after one transaction on the state topic: no transaction
sees half of it. Their records name the set (`promoted_with`; a large set by one name for all, `state/promote_sets.py`):
the next leader continues the whole set, and gives it up if one of its topics is in another state by then. A set may
include groups (`state/promote_sets.py`): a gateway holds them while the topics are paused, since the topics' records
name them (`Routing.holding`), and says so in its acknowledgement. `cutover/promote/rules/groups.py` has the steps that
they add, `groups/moves.py` takes them, and one write stores the records of topics and groups.

When writes fail back (`state/producer_ids.py`, failback epochs), brokers there remember the producer's last sequence.
So after each failback of any topic the producer gets another transactional id, made from the client's and the number of
failbacks of all topics (`NAME.lockgate-3`), and with it a new producer id. That number never falls: topics whose
mirrors are deleted still count, and forgotten ones remain as a sum (`StateViews.forgotten_failbacks`).
"""
