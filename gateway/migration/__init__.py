"""A migration as one thing: found out, written down, carried out step by step, judged, and told.

`migration/` stands above the operations and calls them; it has no way of its own to change a cluster. `discovery.py`
and `log_tail.py` ask a source, `rules/ties.py` says what ties what, `rules/sets.py` makes sets and their order of it,
`rules/draft.py` and `rules/picture.py` show it. A file (`rules/file.py`) is kept as one record with a journal
(`state/migration_records.py`; older gateways skip it). The leader's `run.py` reads the world (`world_reader.py`),
asks `rules/resolve.py` for what is left, and has `carry_out.py` take the steps that wait for nothing. The journal is
for people: nothing is decided by it. `SetPromotion` there is the one place that knows how a set of topics and groups
is promoted. `rules/windows.py` and `rules/stop_rules.py` hold promotes back, by what the records say of those before,
and by what clients are answered: `client_errors.py` asks all gateways, whose `proxy/session/answer_watch.py` looks at
some answers as long as it is asked. `undo.py` takes a migration home. `ready.py` gathers and `rules/readiness.py`
judges; `rules/report.py` tells, of records.
"""
