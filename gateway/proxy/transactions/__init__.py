"""Transactional producers: who they are on each cluster, and where their transactions live.

A transaction lives on one cluster, from its first request to its end: where its topics are written when it begins. On
each cluster its producer has another producer id and epoch, from that cluster's own transaction coordinator.

1. `handlers/transactions/init_producer_id.py`: the target answers first; its identity is the one the client holds.
   While topics are mirrored, the transactional id is initialised on their sources too, under the link's principal,
   which fences an instance that writes there directly and aborts what it left open. The identities are written to
   `__lockgate_producers`, a compacted topic on the target, before the client hears of its own
   (`proxy/rules/transactional_ids.py` says why they are kept and not worked out). Any gateway serves the next request
   (`proxy/transactions/producer_lookup.py`): an identity it does not know is looked up there, and what the producer
   has open is asked of the coordinators (DescribeTransactions, Kafka 3.0 and later).
2. `handlers/transactions/add_partitions_to_txn.py` → `proxy/rules/transactional_producers.py` decides: all names of
   the request on one side (`proxy/transactions/placement.py`), and on the side of what is open, or the request is
   refused with a code that clients answer by aborting; one with a group's offsets in it with a code that is fatal.
   The target: the request goes on as it is. A source: it goes to the source's coordinator under the identity there.
   It is decided anew right before it is sent (`adding.py`): a pause that began while rights and the identity were
   asked for does not know of it.
3. Produce: `proxy/transactions/transactional_produce.py` restamps producer id and epoch of each batch
   (`protocol/batch/stamp.py`) and keeps sequence and transactional bit. Sequences simply go on over the cutover: a
   broker that has never seen a producer id on a partition takes any first sequence. A marker would be a first sight
   too, so nothing of a mirrored topic is begun or ended on the target before its cutover.
4. AddOffsetsToTxn and TxnOffsetCommit follow the group: it commits on the target once it is promoted, on the source
   before.
5. `handlers/transactions/end_txn.py` waits until no Produce of the transaction is in flight, and sends the end once
   to the coordinator that has it. When the answer is lost the client's connection closes; its own retry goes to the
   same coordinator, also after the cutover. For a client whose connection has ended nothing more is sent, and the
   connection by which a request of it may be on its way closes, its own to the target too, and with it what the
   kernel would send yet (`coordinator_calls.py`, `coordinators.py`): it has asked again by another gateway, and an
   abort that comes late would hit its next transaction.

Under a write pause, transactions that have one of the paused topics go on to their end, and no other one takes these
topics in (held, then CONCURRENT_TRANSACTIONS). A gateway acknowledges the pause when they are over and their markers
written, which it asks of the coordinators; it also looks for open ones that a process before it has left
(`proxy/transactions/write_pause.py`). What counts at the cutover is what the leader asks last
(`kafka/transactions.py`): of no broker's transactions may one have the topics and not be complete. A transaction that
outlasts the pause's patience ends the promote, never the other way round. Topics of one promote set are paused by one
snapshot and switched by one, after one transaction on the state topic: no transaction sees half of it. Their records
name the set (`promoted_with`; a large one by one name for all, `state/promote_sets.py`): the next leader takes up all
of it, and gives it up when a topic of it is in another state by then. Groups may be of the set
(`state/promote_sets.py`): a gateway holds them as long as the topics are paused, since the topics' records name them
(`Routing.holding`), and says so when it acknowledges. `cutover/promote/rules/groups.py` has the steps that they add,
`groups/moves.py` takes them, and the records of topics and groups are one write.

When writes fail back (`state/producer_ids.py`, failback epochs), brokers remember the producer's last sequence there.
After each failback of any topic there is a transactional id of its own, made from the client's and the number of
failbacks of all topics (`NAME.lockgate-3`), and so a fresh producer id. That number never falls: topics whose mirrors
are deleted count on, and what is forgotten of them stays as a sum (`StateViews.forgotten_failbacks`).
"""
