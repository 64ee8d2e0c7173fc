"""The offset maps of a link, for topics whose offsets differ: kept in a compacted topic, written ahead.

In mode **preserve** a record has the same offset on both clusters: the copy is padded to the source's first offset,
and each batch is copied as it is. A log with offset gaps cannot be written so. In mode **translate** gaps are left
out, what cannot be copied as it is is encoded anew (`protocol/batch/reencode/`), and the **offset map** says where a
source offset is.

| | preserve | translate |
|---|---|---|
| a topic | neither compacted nor transactional, as far as is known | compacted, or with an offset gap |
| decided | at creation | at creation, or by the mirror at the first offset gap: then for good |
| read | up to the last stable offset, aborted records known | the same |
| position | the copy's log end | what the map says for the copy's log end |
| in flight | five appends, or more of large ones | the same; one where compaction can thin out the log under it |

The map of a partition is a list of breakpoints (`mirror/offset_map/rules/offset_map.py`). It is kept in
`__lockgate_map.LINK`, a compacted topic on the target (`mirror/offset_map/topic.py`; its bytes:
`mirror/offset_map/rules/codec.py`), and written ahead: a batch is handed out only when the breakpoints in it are
durable (`AppendWindow.held_at`). So after a crash the log end alone says where the source is read on from, also while
the source is being compacted. Breakpoints are tentative: they may be for a batch that never comes, and two appenders
may write different ones for one offset; `mirror/offset_map/rules/ledger.py` has the rules by which the copy's log
decides, `mirror/partition/rules/translator.py` those for two appenders at once. A copy that has lost what it had
acknowledged gets it once more, in either mode; in mode translate a *cut* in the map first voids what was said of it.
That a link has no map topic is believed of the controller only (`kafka/admin.py` `is_absent`): a broker that lags
would have equal offsets taken for the map. And a mirror that starts in mode translate compares the copy's last batch
with the source's at the place that the map says (`mirror/partition/rules/log_tail.py`). A map topic that has lost its
end gets it again from the process that wrote it (`mirror/offset_map/rules/written_ahead.py`).

Others get the map by `OffsetMaps` (`operations/offset_translation.py`): groups at their promote and back, people by
`lockgate mirror translate-offset`, the Spark jobs by reading the topic. Every mirror period of a topic has maps of
its own, from one cutover to the next (`mirror/offset_map/rules/periods.py`), and an offset goes by the period it
belongs to. The answer says by which rule an offset was found: `exact`, `next_record` (it was in an offset gap),
`log_start`, `beyond_end`.
"""
