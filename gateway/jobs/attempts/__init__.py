"""One attempt of a task at a time: a newer attempt appends only when the older one cannot any more.

Spark gives a task up when its executor is lost to the driver, and begins it anew elsewhere; the lost one may well be
alive. Appends carry their offset as sequence number, so the target's broker refuses what the older attempt sends late;
but not once the producer id is forgotten there (`producer.id.expiration.ms`, counted from the records' timestamps).
So attempts ask first. The driver keeps the highest attempt of each partition (`book`, pure), tasks keep a connection to
it (`server`, `client`), and the rule is that of all leases here (`domain.leases`):

* an attempt appends until `LEASE_S` after it *sent* the word that was answered last, and not once it was told to stop;
* a newer attempt of one of its partitions begins when the older one has said that it ended, or its process has, or its
  lease is over by the driver's clock.

A driver that ends, or whose own lease at the gateway is lost, closes the server: then no attempt appends any more.
"""
