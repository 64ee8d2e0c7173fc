"""The data plane: clients' connections, and what the gateway does with their requests.

The path of a byte
------------------

A plain connection is a `Wire` (`transport/wire.py`; what it writes: `transport/send_buffer.py`): a non-blocking
socket on the event loop, without a transport. All wires read into one buffer; what is read is valid until the call
returns, and is written to the other socket from there. Once a frame's header has said that nobody wants the frame,
the rest of it (from 16 KB on) is spliced from socket to socket through a pipe (`transport/pipes.py`); a peer that
reads slowly stops the other one (`pause_writing`). With TLS on a side, that side is an asyncio transport
(`proxy/session/sides.py`), and bytes are copied. A session knows the listener that it came by
(`proxy/session/listener.py`): its client is told the brokers' addresses there. Where brokers have names instead of
ports, the TLS handshake says which one is meant (`proxy/session/naming_clients.py`).

Before that it is found out whether a Produce or Fetch names a topic of the gateway's own: `protocol/peek.py` goes
from name to name by their lengths, over records that it does not look at. In all other APIs
`proxy/handlers/own_names.py` stands before the handler: it takes own entries out of requests and answers
(`proxy/rules/own_entries.py`, `proxy/rules/refusals.py`).

Behind a load balancer a connection begins with a PROXY header (`proxy/rules/proxy_protocol.py`), which is taken off
the socket before anybody else reads it (`proxy/session/behind_proxy.py`).

Who a client is, is the session's `login` to say. `proxy/session/login.py`: the target has accepted what both have
said through the gateway. `proxy/identity/token_login.py` (`identity: token`): the gateway knows it by its certificate
or bearer token, and has logged in at the broker with a delegation token of the client's principal
(`kafka/access/token_book.py` keeps those, `proxy/identity/upstream_login.py` speaks between two requests of the
client). With `link.identity=client` the same is done on the source: `Cluster.connection_for` gives a connection in a
client's name (`kafka/client_connections.py`), and a task that serves a client's transaction knows whose it is
(`CLIENT` in `proxy/transactions/coordinators.py`); whatever has no client asks as the link.

What clients may take is in `proxy/rules/limits.py`. It is looked at where a connection is accepted
(`proxy/rules/admission.py`), where TLS begins (`proxy/rules/handshakes.py`), every few seconds
(`proxy/session/timeouts.py`), where a request is decoded (`Exchange.request`), and where requests and answers wait
(`proxy/rules/held_requests.py`, before a first login `proxy/rules/unproven_requests.py`, until clients take them
`proxy/rules/held_answers.py`; `Session.mute`): never per byte, nor for a request that passes. Of a turn of the event
loop a client has a slice (`proxy/rules/loop_shares.py`): the next request's head, and the broker's next answer, wait
for another turn when it is over.

`proxy/session/proxy_session.py` glues the two connections together: a `Session` (`session.py`) is what handlers see
of it, and takes in the bytes of either side as `FromClient` and `FromBroker` (`proxy/session/from_client.py`,
`proxy/session/from_broker.py`).

The path of a Produce
---------------------

1. `proxy/session/from_client.py` `client_data` → `proxy/session/streams.py` `RequestStream` cuts the bytes at frame
   boundaries. `FromClient.begin` sees the header. While no topic is mirrored, Produce is opaque: its bytes go on as
   they arrive (`passed`). So is one of a single topic that is not mirrored (`protocol/peek.py` `plain_topic`),
   outside of a transaction.
2. Otherwise the frame is collected and `handlers/produce.py` gets it. `protocol/produce.py` scans it (no record is
   looked at) and `proxy/produce/produce_plan.py` asks each topic's write pause where it goes: target, source leader,
   paused, or, without a lease, nowhere.
3. May this client write? `proxy/produce/authorization.py` asks the target on the client's own connection (cached 30
   s).
4. `proxy/produce/forwarded_produce.py` sends to the source leader over a pooled connection
   (`kafka/connection/connection.py`); a client keeps to one lane, so that its requests stay in order. In the common
   case the body is the client's own bytes, and all of this is done in one piece (`proxy/produce/forwarded_as_is.py`).
   Clients do not see who leads on the source, so the gateway does what they do elsewhere: after a change of leader
   nothing goes to the new one before the old one has answered (`proxy/rules/leader_order.py`), and what follows a
   batch that was refused waits until that one has come again (`proxy/rules/pipeline_guard.py`). Right after a cutover
   no batch overtakes another one of its producer on any connection: a cluster that has never seen the producer takes
   any first sequence (`proxy/rules/cutover_order.py`). A broker that throttles a connection (KIP-219) reads nothing
   of it meanwhile: what is sent all the same would be in flight for as long, and a pause waits for that. So nothing
   is (`kafka/connection/quota_rest.py`); the write waits in its session, and questions of the gateway's own where
   they are asked (`Connection.request`).
5. The source's answer is relayed; with `ack: both` it waits in `mirror/rules/progress.py` until the mirror has the
   records.
6. The mirror fetches the batch from the source like any other and appends it (see below).

The path of a Fetch
-------------------

Opaque, straight to the partition's leader on the target, unless a gate concerns this client (`handlers/fetch.py`
`intercepts`): then partitions of mirror topics come back empty after max_wait, with true high watermarks.

The path of a JoinGroup
-----------------------

1. `handlers/join_group.py` asks `groups/gate/rules/gates.py` for the group's status. Open: passed on.
2. Unknown: `groups/monitor.py` asks the source whether the group lives there. It does: a mirror group, which gets a
   record. It does not, and no other link's either: the group is let in, as of the mirrors that are stored then. When
   one more is stored everybody who was let in is unknown again, at every gateway, and asked about anew, before its
   topic is created: of the link that mirrors it alone (`groups/rules/classify.py`).
3. Closed: the request waits in `proxy/handlers/gating.py` for 20–25 s, is told UNKNOWN_MEMBER_ID, and comes again. A
   member that had joined before its gate was closed is sent there by its next heartbeat (`handlers/heartbeat.py`,
   `has_to_leave` in `gating.py`). Without a valid lease an open gate holds as a closed one does.
4. `groups/promote.py`: the source group has had no member for the quiet period, nobody commits for it without being
   one, and somebody waits here → PENDING_PROMOTED is read at every gateway, and no offsets of a transaction are on
   their way to the source any more → committed offsets are read, the mirror is awaited, offsets are translated
   (`operations/offset_translation.py`), committed on the target and read back → a last look at the source, and
   PROMOTED is written right after it or not at all → the gate opens and the waiting request goes on at that moment.
   `groups/rules/promote.py` decides each step.

Nobody opens or closes a gate: `groups/gate/rules/gates.py` works out whether it is open, at the leader as at
followers, from the group's record (`groups/gate/by_record.py`), from commands that shut it for the time of a demote
(`groups/gate/rules/commands.py`), and from what was found out about groups without a record. Each of these is bound
to an offset of the state topic.

Until then `groups/offset_sync.py` may commit the group's offsets here again and again (`groups/rules/offset_sync.py`:
never beyond the mirror, never lower), and `groups/failover.py` opens the gate without the source when a topic of the
group has failed over and the link's health says that the source is gone (`groups/rules/failover.py`). Whoever commits
for a group holds its lock (`groups/progress.py`). Back to the source takes `groups/demote.py`, each step of which
`groups/rules/demote.py` decides: gate closed → commits that had passed it are answered (`GroupGates` counts them) →
the mirror back has come to the offsets, if the topic is written on the target → committed on the source, read back.

Names
-----

Above the store everything is named as on the target: mirror topics, and groups as clients of the gateway call them.
Names of the source appear only in what is sent there: `TopicRoute.source_topic` for writes, `Routing.group_at` for
offsets in transactions, `MirrorPeriod` for the engine, `GroupOffsets` for committed offsets, `UnmirroredTopics` for
names nobody mirrors. `state/link_config.py` turns one into the other (`link.prefix`, `consumer.group.prefix.enable`).
"""
