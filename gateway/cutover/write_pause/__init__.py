"""Pauses the writes of a topic on every gateway, and keeps the routes of clients' writes."""
