"""The control plane: the state topic, operations on links, mirror topics and groups, REST.

How `app.py` puts it together; each step needs the ones before it:

    store = StateStore(settings.target)                      # control/store.py; Kafka client properties
    store.on_fenced = stop                                   # another process took over: stop serving
    await store.open()                                       # StoreError: target unreachable, topic not ours

    target = NetAccess(ClusterConfig.from_client_properties(settings.target))   # control/net_access.py
    await target.start()                                     # target.cluster is the net Cluster, to be shared
    sources = Sources(NetAccess)                             # control/sources.py
    # sources.clusters: live Mapping[link name, net Cluster], for ProxyContext

    service = ControlService(
        store=store, target=target, sources=sources,         # control/service.py
        routing=RoutingTable(), gates=GroupGates(), progress=MirrorProgress(),
        plan_start=...,                                      # see control/context.py PlanStart
    )
    service.restore()                                        # routes and gates as the records say; no I/O
    engine = ...(events=service.events, ...)                 # domain.ports.MirrorEngine
    await service.start(engine=engine, topic_promoter=..., group_promoter=...)
    ...
    await service.close(); await store.close()

    ports = PortAllocator(store, base_port=..., explicit=..., reserved={bootstrap_port, api_port})
    await ports.ports_for(node_ids) -> dict[node id, port]   # control/ports.py
    app = create_app(service, metrics, listeners=...)        # control/rest/app.py, FastAPI

For the proxy: `service.source_topics` (SourceTopics). For the promote runners: `service.publisher`
(`fence(topics)`, `unfence(topics)`), `store.replace(old, new)` (compare and set), and
`service.context.change(link, topic, operation, **changes)` (the state table applied to what is stored).
"""
