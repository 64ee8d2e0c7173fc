"""Logs read as such: a range of one, one that is followed, one that is compacted.

`kafka/logs/compacted_log.py` creates, reads and appends to the compacted topics that lockgate keeps on the target:
producers' identities (`proxy/transactions/identities.py`) and offset maps (`mirror/offset_map/topic.py`), which every
gateway writes. The state topic has one writer at a time, and changes of several records:
`kafka/transactional_producer.py` writes it, `kafka/logs/log_follower.py` reads it. A commit of unknown outcome is
never asked for again. Before the next write it is aborted if it is still open, and the producer's epoch is raised, so
that nothing that is on its way counts any more; then the log is read, and says which of both it was.

These topics are as durable as what they decide: `min.insync.replicas` is 2 (1 with one replica), no unclean election;
each opening looks and mends, or refuses with the remedy. The follower fetches with the leader epoch of what it has
read (KIP-595), so a log that went back is told. Then no gateway that has read lost records writes any more; each
takes the topic over and writes them again with the offsets that they had, and the group agrees anew
(`state/recovery.py`). Who has read nothing for six hours may miss deletions, and reads all anew.
"""
