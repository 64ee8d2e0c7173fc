"""Schemas of messages that kafka-python does not have: of groups (KIP-848, KIP-932, KIP-1071), and of delegation tokens
(KIP-48)."""
