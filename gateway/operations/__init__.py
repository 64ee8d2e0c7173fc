"""What all operations of the control plane share: clusters, sources, offset translation, partners.

Whatever a gateway changes on a cluster or in a registry (topics, configs, partitions, records deleted, ACLs, users,
quotas, committed offsets, members, schemas) was decided from records and readings that may be seconds old. So each
such request needs a *permit* (`kafka/acts.py`), which `Connection.request` asks right before each try. Permits are
made by `operations/door.py`: the lease is valid, this is still the term, and the records that the act was decided
from are the very ones that are stored; what concerns mirror topics is done under the locks that a promote takes
before it begins. What the door refuses was never sent, and is decided again. Without a permit a gateway changes
nothing: it runs `guarded`. `tests/unit/kafka/test_acts.py` walks the code for requests beside the door.

Facts carry what they are facts of. Positions, log ends and log starts have the *mirror tag*
(`state/mirror_states.py`): the engine and the other gateways tell them for that mirror and period alone.
"""
