"""Topic ids as Kafka prints them (KIP-516): URL-safe base64 of 16 bytes, without padding."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode


def topic_id_text(topic_id: bytes) -> str:
    """The printed form; '' for no id (empty or all zeros)."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=") if any(topic_id) else ""


def topic_id_bytes(text: str) -> bytes:
    """The 16 bytes of a printed id; b'' for ''. Raises ValueError when it is not one."""
    if not text:
        return b""
    topic_id = urlsafe_b64decode(text + "==")
    if len(topic_id) != 16:
        raise ValueError(f"{text!r} is not a topic id")
    return topic_id
