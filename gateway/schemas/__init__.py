"""Schemas: what records are encoded with follows them, from the source's schema registry to the target's.

`schemas/schema_sync.py` begins a round per link (`schema_round.py`): `look.py` asks both registries (`registry.py`),
`rules/plan.py` says what is to be changed and in which order, and each change is one request to the target's
registry. What came of it is stored as a record per subject (`state/schemas/schema_records.py`), which is the id map
as well; a round that breaks off is gone on with by looking again. How to reach the registries is part of the link's
record (`registries`, `state/schemas/registry_properties.py`). Nothing of it is on the path of a record: `check.py`
looks at the ends of the copies, `gate.py` does so by itself and is what a promote asks.

But for topics whose record says `translates_ids`: their batches go through `mirror/partition/rules/schema_ids.py`
between fetch and queue, which writes ids anew (`protocol/batch/schema_ids.py`) by the id map. That is made of the
same records at every gateway (`state/schemas/id_map.py`). A batch with an id that the map lacks is not queued:
reading stops there, the partition's status names the id, the leader hears it and has the sync look for it
(`schemas/check.py`), and the partition reads on when the map has it.
"""
