"""The control plane: the state topic, operations on links, mirror topics and groups, REST; and the fleet of gateways.

`app/` puts it together. For as long as the gateway runs:

    store = StateStore(config); await store.open()           # store.py: reads the state topic all the time
    publisher = RoutingPublisher(store, routing)             # routing_publisher.py: routes as the records say
    GatesByRecord(store, gates)                              # gates_by_record.py: gates of groups likewise
    replica = Replica(store, sources, engine)                # replica.py: the rest of it, while another gateway leads
    fleet = Fleet(identity, store, cluster, peers, hooks)    # fleet.py: the group, the lease, terms of leadership

and for a term of leadership:

    service = ControlService(store=store, target=target, sources=sources, routing=routing, gates=gates,
                             progress=progress, plan_start=..., publisher=publisher)       # service.py
    service.restore()                                        # routes and gates as the records say; no I/O
    await service.start(engine=engine, topic_promoter=..., group_promoter=...)
    app = create_app(lambda: service, metrics, listeners, gateways)  # rest/app.py, FastAPI
    ...
    await service.close()

For the promote runners: `service.publisher` (`fence(holds)`, `unfence(holds)`), `store.replace(old, new)` (compare
and set), and `service.context.change(link, topic, operation, **changes)` (the state table applied to what is stored).
"""
