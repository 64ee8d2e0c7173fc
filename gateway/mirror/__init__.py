"""The mirror: copies what the source committed to the target, in order and exactly.

`mirror/` runs per link: one fetcher per source broker (incremental fetch sessions), one appender per target broker
(`mirror/partition/appender.py`: one batch of each of several partitions per request; of small requests as many in
flight as keep the broker busy, more of large ones). What happens to a partition is decided in
`mirror/partition/rules/partition.py`, which does no I/O: per batch there, and on occasion beside it, in
`mirror/partition/rules/start.py` (where to begin), `mirror/partition/rules/unknown_outcome.py` (what became of an
append) and `mirror/partition/rules/offset_gaps.py` (what the source does not have any more). A batch is copied as
bytes; only its 61-byte header is written anew (`protocol/batch/header.py`). What has to be opened is opened on the
event loop as far as that takes some milliseconds, and in a thread beyond (`mirror/partition/rules/opened.py`).

**Who is behind sends small batches as one.** A broker takes one append of a partition after the other, and with
acks=all each lasts for a round trip to its replicas: some hundred a second, however small. So when more batches wait
than may travel, small ones of one codec are merged (`AppendWindow.take`, `protocol/batch/merge.py`): keys, values,
headers and timestamps as they are, offset deltas written anew. Appending with acks=1 and making it durable by a
barrier now and then was the other way. It wins less (one connection takes 1,900 to 2,500 requests a second with it,
against 770; merging took batches of one record from 828 to 36,000 a second), and every promise would have to tell
what is appended from what is durable. Here what is acknowledged is on all replicas in sync, as before
(`tests/exact/test_leader_loss_promises.py` loses leaders between the two). A merged append ends where a batch of the
source ends. So two appenders may merge differently, and the log end stays a place to go on from. What compares the
copy's last batch with the source knows that it may be several there (`CopiedTail`, `last_batch.py`).

**What is sent early only waits elsewhere.** A broker works off one connection's requests one after the other, each
for a round of replication. So of small requests two travel to a broker at hand, one that it works on and one that is
there when it is done, and up to five to a far one (`mirror/partition/rules/throttle.py`, by what was measured); what
comes meanwhile goes along with the next one. With five always, a broker that takes 5 ms for a request makes records
28 ms late in the median instead of 13, with as many requests (`tests/unit/mirror/partition/test_appender_depth.py`,
in virtual time; where brokers share two cores with all else, two or five made no difference). Several connections to
a broker were the other way. Where records come faster than requests can carry them, they bring nothing, since each
request has what waits of every partition; below that they take some milliseconds more, for up to three times the
requests. On two cores shared with three brokers backlogs were not clearly faster by two or four of them, and took a
tenth to a quarter more of the brokers' CPU.

**Who is near is read.** With `client.rack` leaders name a nearer replica, which is read until it fails
(`mirror/rules/read_replica.py`). The rack is one request's and not a partition's, so those that ask and those that do
not are fetched on connections of their own (`mirror/engine/read_replicas.py`). What a follower refuses is never told
to a partition.

**What lies still costs nothing.** A fetch session names what has changed (KIP-227), a partition is looked at when
something became of it (`mirror/engine/fetcher.py`), and measured until its figures are stable
(`mirror/engine/topic.py`). What must be asked all the time, of many topics, is read when it says something else than
the last time (`protocol/asked_again.py`); what follows from a record is worked out for that record
(`fleet/mirrors.py`, `cutover/write_pause/publisher.py`).
"""
