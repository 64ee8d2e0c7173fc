"""The resolver of a failover: snapshot in, next step out. Pure."""
