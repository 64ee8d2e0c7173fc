"""What keeps a gateway from its work, found out from where somebody asks, each with what helps: `lockgate doctor`.

Facts are gathered by thin questions with a deadline each: `places.py` (names, addresses, TLS), `machine.py` (this
process and its clock), `cluster.py` (one cluster, as one principal), `authorized.py` (what it may do there). What they
mean is decided in `rules/`: facts in (`rules/facts.py`), findings out (`rules/finding.py`). No secret is in a fact.
"""
