"""The mirror: copies what the source committed to the target, in order and exactly.

Each link has one fetcher per source broker (incremental fetch sessions) and one appender per target broker
(`mirror/partition/appender.py`: a request carries one batch of each of several partitions; as many small requests are
in flight as keep the broker busy, and more large ones). `mirror/partition/rules/partition.py` decides what happens to
a partition, without I/O. It handles each batch itself and leaves the rarer cases to
`mirror/partition/rules/start.py` (where to begin), `mirror/partition/rules/unknown_outcome.py` (what became of an
append) and `mirror/partition/rules/offset_gaps.py` (offsets that the source no longer has). A batch is copied as
bytes; only its 61-byte header is rewritten (`protocol/batch/header.py`). Batches that must be opened are opened on the
event loop up to a budget of some milliseconds, and beyond it in a thread (`mirror/partition/rules/opened.py`).

**A mirror that lags merges small batches.** A broker handles the appends to one partition one after the other, and
with acks=all each takes a round trip to the replicas: some hundred a second, however small. So when more batches wait
than may be in flight, small ones of one codec are merged (`AppendWindow.take`, `protocol/batch/merge.py`): keys,
values, headers and timestamps stay, offset deltas are rewritten. The alternative was to append with acks=1 and to make
the records durable by a barrier now and then. It gains less (one connection then takes 1,900 to 2,500 requests a
second, against 770; merging took batches of one record from 828 to 36,000 a second), and every promise would have to
distinguish appended from durable. Here an acknowledged record is on all in-sync replicas, as before
(`tests/exact/test_leader_loss_promises.py` loses leaders between the two). A merged append ends where a batch of the
source ends. So two appenders may merge differently, and a mirror can still resume from the log end. The code that
compares the copy's last batch with the source knows that it may be several batches there (`CopiedTail`,
`last_batch.py`).

**Sending early only moves the queue to the broker.** A broker handles the requests of one connection one after the
other, each for a round of replication. So a nearby broker gets two small requests at a time, one to work on and one
that is there when the first is done, and a distant broker up to five (`mirror/partition/rules/throttle.py`, from
measured times); records that arrive meanwhile join the next request. With five always, a broker that takes 5 ms per
request delays records by 28 ms in the median instead of 13, with as many requests
(`tests/unit/mirror/partition/test_appender_depth.py`, in virtual time; where brokers share two cores with everything
else, two or five made no difference). The alternative was several connections to a broker. Where records arrive faster
than requests can carry them, more connections gain nothing, since each request already carries waiting batches of
every partition; at lower rates they cost some milliseconds more and up to three times the requests. On two cores
shared with three brokers, two or four connections did not copy a backlog clearly faster, and took a tenth to a quarter
more of the brokers' CPU.

**The nearest replica is read.** With `client.rack` set, leaders name a nearer replica, which is read until it fails
(`mirror/rules/read_replica.py`). A fetch request carries one rack for all its partitions, so partitions that send the
rack and those that do not are fetched on separate connections (`mirror/engine/read_replicas.py`). A partition never
sees the errors of a follower.

**Idle partitions cost nothing.** A fetch session names only changes (KIP-227); a partition is examined only when its
state changes (`mirror/engine/fetcher.py`), and measured until its figures are stable (`mirror/engine/topic.py`).
Answers that are polled for many topics are parsed only when they differ from the previous answer
(`protocol/asked_again.py`); whatever is derived from a record is derived once per record (`fleet/mirrors.py`,
`cutover/write_pause/publisher.py`).
"""
