"""Sockets, wires, splicing, buffers, and the machine below: no Kafka in here."""
