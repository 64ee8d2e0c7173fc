"""The gateways of a fleet: membership, leadership, who mirrors which partition, leases. See docs/operate/fleet.md.

All gateways before one target are one fleet ([docs/operate/fleet.md](docs/operate/fleet.md)). `runtime/gateway.py`
starts one: it reads the state topic (`state/store.py`), finds its place in the fleet (`runtime/peering.py`: the
group's assignment, the lease, the channel to the others), and serves clients by the records, whoever leads.
`fleet/fleet.py` lets the group's assignments count (`fleet/admission.py`), and begins and ends terms of leadership in
the running process (`fleet/leadership.py`): `runtime/term.py` is the control plane of one term. While another gateway
leads, `operations/replica.py` keeps sources, gates and mirrors as the records say, `api/leader_forwarding.py` passes
REST on, and `cutover/write_pause/follower.py` does what the leader commands. A term begins with the mirrors of the
records, too, whatever the term before has left running (`operations/running_mirrors.py`). Which partitions are
mirrored here is decided in `fleet/rules/ownership.py`.

A link is changed by its record alone (`links/update.py`): every gateway reaches the source as the record says as soon
as it has read it (`operations/sources.py`, `Engine.update_link`), over new connections that begin when the former
ones have nothing in flight (`kafka/connection/pool.py` `reconfigure`).

What must be known or done everywhere before an operation goes on is asked through the `fleet` that an operation is
given (`fleet/quorum.py`), what a pause covers through `TopicPromoter`'s `pauses` and `coverage`
(`fleet/registry.py`).

With `workers` a gateway is several processes, each a member of the fleet of its own (`runtime/workers/`): what holds
for several gateways holds for them, and nothing of the above knows of it. Names tell which belong together
(`fleet/rules/membership.py`); what an operator sees is put together from them (`fleet/views.py`,
`runtime/workers/siblings.py`).

`fleet/mirrors.py` has the engine run the partitions that are this gateway's (`mirror/engine/owned.py`), sends
heartbeats, and hears the others' heartbeats (`fleet/heartbeats.py`). A partition that changes its gateway is asked
for (`fleet/releases.py`, `fleet/rules/ownership_transfer.py`): whoever has it stops, waits for its appends, and gives
the last batches of its producers along. What others mirror shows in `MirrorProgress` like what is mirrored here
(`fleet/peer_progress.py`).

Whatever a write pause concerns is under the write lease (`fleet/rules/leases.py`): writes of topics that are or were
mirrored, on either side, requests of transactions, commits behind an open gate, and the mirror's appends. It is
looked at before sending, once more when the bytes of a burst leave for a broker (`transport/event_loop_io.py`), and
again when the answer comes; an answer that comes too late closes the client's connection, as one that was lost does.
"""
