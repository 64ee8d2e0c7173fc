"""The data plane: clients' connections, and what the gateway does with their requests.

The path of a byte
------------------

A plain connection is a `Wire` (`transport/wire.py`; its output: `transport/send_buffer.py`): a non-blocking socket on
the event loop, without a transport. All wires read into one buffer; the bytes are valid until the call returns, and
are written to the other socket from there. Once a frame's header shows that no handler wants the frame, the rest of it
(from 16 KB on) is spliced from socket to socket through a pipe (`transport/pipes.py`); a peer that reads slowly stops
the other one (`pause_writing`). With TLS on a side, that side is an asyncio transport (`proxy/session/sides.py`), and
bytes are copied. A session knows its listener (`proxy/session/listener.py`), and tells its client the brokers'
addresses there. Where brokers have names instead of ports, the TLS handshake names the broker
(`proxy/session/naming_clients.py`).

Before that the gateway checks whether a Produce or Fetch names one of its own topics: `protocol/peek.py` skips from
name to name by their lengths, without reading a record. For all other APIs `proxy/handlers/own_names.py` stands before
the handler and removes the gateway's own entries from requests and answers (`proxy/rules/own_entries.py`,
`proxy/rules/refusals.py`).

Behind a load balancer a connection begins with a PROXY header (`proxy/rules/proxy_protocol.py`), which is read before
anything else (`proxy/session/behind_proxy.py`).

The session's `login` says who a client is. `proxy/session/login.py`: the target has accepted the login that client and
target exchanged through the gateway. `proxy/identity/token_login.py` (`identity: token`): the gateway knows the client
by its certificate or bearer token, and has logged in at the broker with a delegation token of the client's principal
(`kafka/access/token_book.py` keeps the tokens, `proxy/identity/upstream_login.py` logs in between two requests of the
client). With `link.identity=client` the gateway does the same on the source: `Cluster.connection_for` returns a
connection in a client's name (`kafka/client_connections.py`), and a task that serves a client's transaction knows the
client (`CLIENT` in `proxy/transactions/coordinators.py`); requests without a client are the link's.

`proxy/rules/limits.py` has the limits of clients. They are checked where a connection is accepted
(`proxy/rules/admission.py`), where TLS begins (`proxy/rules/handshakes.py`), every few seconds
(`proxy/session/timeouts.py`), where a request is decoded (`Exchange.request`), and where requests and answers wait
(`proxy/rules/held_requests.py`, before a first login `proxy/rules/unproven_requests.py`, until clients read them
`proxy/rules/held_answers.py`; `Session.mute`): never per byte, nor for a request that passes. A client has a slice of
each turn of the event loop (`proxy/rules/loop_shares.py`): when it is used up, the head of its next request and the
broker's next answer wait for another turn.

`proxy/session/proxy_session.py` joins the two connections: handlers see a `Session` (`session.py`), which takes the
bytes of either side as `FromClient` and `FromBroker` (`proxy/session/from_client.py`, `proxy/session/from_broker.py`).

The path of a Produce
---------------------

1. `proxy/session/from_client.py` `client_data` → `proxy/session/streams.py` `RequestStream` cuts the bytes at frame
   boundaries. `FromClient.begin` sees the header. While no topic is mirrored, Produce is opaque: its bytes pass as they
   arrive (`passed`). So is a Produce to a single topic that is not mirrored (`protocol/peek.py` `plain_topic`), outside
   of a transaction.
2. Otherwise the frame is collected for `handlers/produce.py`. `protocol/produce.py` scans it without reading a record,
   and `proxy/produce/produce_plan.py` asks each topic's write pause where it goes: target, source leader, paused, or,
   without a lease, nowhere.
3. May this client write? `proxy/produce/authorization.py` asks the target on the client's own connection (cached 30
   s).
4. `proxy/produce/forwarded_produce.py` sends to the source leader over a pooled connection
   (`kafka/connection/connection.py`); a client uses one lane, so that its requests stay in order. In the common case
   the body is the client's own bytes, and all of this happens in one piece (`proxy/produce/forwarded_as_is.py`).
   Clients do not see the leaders on the source, so the gateway does what they do elsewhere: after a change of leader it
   sends nothing to the new leader before the old one has answered (`proxy/rules/leader_order.py`), and batches after a
   refused one wait until that one has come again (`proxy/rules/pipeline_guard.py`). Right after a cutover no batch
   overtakes another one of its producer on any connection: a cluster that has never seen the producer accepts any first
   sequence (`proxy/rules/cutover_order.py`). A broker that throttles a connection (KIP-219) does not read it meanwhile:
   requests sent to it would be in flight for that long, and a pause would wait for them. So none are sent
   (`kafka/connection/quota_rest.py`); writes wait in their session, the gateway's own requests in `Connection.request`.
5. The gateway relays the source's answer; with `ack: both` the answer waits in `mirror/rules/progress.py` until the
   mirror has the records.
6. The mirror fetches the batch from the source like any other, and appends it.

The path of a Fetch
-------------------

Opaque, straight to the partition's leader on the target, unless a gate concerns this client (`handlers/fetch.py`
`intercepts`): then partitions of mirror topics come back empty after max_wait, with true high watermarks.

The path of a JoinGroup
-----------------------

1. `handlers/join_group.py` asks `groups/gate/rules/gates.py` for the group's status. Open: passed on.
2. Unknown: `groups/monitor.py` asks the source whether it has the group. If so, it becomes a mirror group with a
   record. If no link's source has it, the group is let in, as far as the stored mirrors go. When another mirror is
   stored, before its topic is created, every group that was let in is unknown again at every gateway, and only that
   mirror's link is asked about it (`groups/rules/classify.py`).
3. Closed: the request waits in `proxy/handlers/gating.py` for 20–25 s, gets UNKNOWN_MEMBER_ID, and comes again. A
   member that had joined before its gate was closed is made to rejoin by its next heartbeat (`handlers/heartbeat.py`,
   `has_to_leave` in `gating.py`). Without a valid lease an open gate holds requests as a closed one does.
4. `groups/promote.py`: the source group has had no member for the quiet period, no client commits for it without being
   a member, and a member waits here → every gateway has read PENDING_PROMOTED, and no transaction's offsets are on
   their way to the source any more → the leader reads the committed offsets, waits for the mirror, translates them
   (`operations/offset_translation.py`), commits them on the target and reads them back → it looks at the source a last
   time and writes PROMOTED right after, or not at all → the gate opens and the waiting request proceeds at that moment.
   `groups/rules/promote.py` decides each step.

No operation opens or closes a gate: `groups/gate/rules/gates.py` computes whether it is open, at the leader and at
followers, from the group's record (`groups/gate/by_record.py`), from commands that shut it during a demote
(`groups/gate/rules/commands.py`), and from what was learnt about groups without a record. Each of these is bound to an
offset of the state topic.

Until then `groups/offset_sync.py` may commit the group's offsets here repeatedly (`groups/rules/offset_sync.py`: never
beyond the mirror, never lower), and `groups/failover.py` opens the gate without the source when a topic of the group
has failed over and the link's health says that the source is gone (`groups/rules/failover.py`). An operation that
commits for a group holds its lock (`groups/progress.py`). `groups/demote.py` gives a group back to the source, and
`groups/rules/demote.py` decides each step: gate closed → commits that had passed it are answered (`GroupGates` counts
them) → the mirror back has reached the offsets, if the topic is written on the target → committed on the source, read
back.

Names
-----

Above the store everything has its name on the target: mirror topics, and groups as the gateway's clients call them.
Source names appear only in requests to the source: `TopicRoute.source_topic` for writes, `Routing.group_at` for offsets
in transactions, `MirrorPeriod` for the engine, `GroupOffsets` for committed offsets, `UnmirroredTopics` for topics that
are not mirrored. `state/link_config.py` translates names (`link.prefix`, `consumer.group.prefix.enable`).
"""
