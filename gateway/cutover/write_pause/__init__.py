"""Holding the writes of a topic on every gateway, and the routes that clients' writes take."""
