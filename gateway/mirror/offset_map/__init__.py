"""The offset maps of a link, for topics whose offsets differ: kept in a compacted topic, written ahead.

In mode **preserve** a record has the same offset on both clusters: the copy is padded to the source's first offset,
and each batch is copied as it is. A log with offset gaps cannot be copied that way. Mode **translate** leaves gaps out
and re-encodes what cannot be copied as it is (`protocol/batch/reencode/`); the **offset map** gives the target offset
for a source offset.

| | preserve | translate |
|---|---|---|
| a topic | neither compacted nor transactional, as far as is known | compacted, or with an offset gap |
| decided | at creation | at creation, or by the mirror at the first offset gap: then for good |
| read | up to the last stable offset, aborted records known | the same |
| position | the copy's log end | the map's source offset for the copy's log end |
| in flight | five appends, or more large ones | the same; one where compaction can thin out the log meanwhile |

The map of a partition is a list of breakpoints (`mirror/offset_map/rules/offset_map.py`). It is kept in
`__lockgate_map.LINK`, a compacted topic on the target (`mirror/offset_map/topic.py`; its bytes:
`mirror/offset_map/rules/codec.py`), and written ahead: a batch is appended only when its breakpoints are durable
(`AppendWindow.held_at`). So after a crash the copy's log end alone tells where to resume on the source, even while the
source is being compacted. Breakpoints are tentative: their batch may never come, and two appenders may write different
ones for one offset. `mirror/offset_map/rules/ledger.py` has the rules by which the copy's log decides,
`mirror/partition/rules/translator.py` those for two appenders at once. A copy that has lost acknowledged records gets
them again, in either mode; in mode translate a *cut* first voids the map's entries for them. Only the controller is
trusted to say that a link has no map topic (`kafka/admin.py` `is_absent`): if a lagging broker were believed, equal
offsets would pass for the map. A mirror that starts in mode translate compares the copy's last batch with the source's
at the map's offset (`mirror/partition/rules/log_tail.py`). A map topic that has lost its end gets it again from the
process that wrote it (`mirror/offset_map/rules/written_ahead.py`).

Other code reads the map through `OffsetMaps` (`operations/offset_translation.py`): groups at their promote and back,
operators by `lockgate mirror translate-offset`; the Spark jobs read the topic. Every mirror period of a topic, from one
cutover to the next, has maps of its own (`mirror/offset_map/rules/periods.py`), and an offset is translated in the
period it belongs to. The answer names its rule: `exact`, `next_record` (the offset was in a gap), `log_start`,
`beyond_end`.
"""
