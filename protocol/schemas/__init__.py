"""Schemas of messages that kafka-python does not have: KIP-848's heartbeat and describe, delegation tokens (KIP-48)."""
