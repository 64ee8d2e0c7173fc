"""Records of MirrorMaker 2's topics, written as Kafka's own classes write them."""

from struct import pack


def text(value: str) -> bytes:
    return pack(">h", len(value.encode())) + value.encode()


def checkpoint(group: str, topic: str, upstream: int, downstream: int) -> tuple[bytes, bytes]:
    return text(group) + text(topic) + pack(">i", 0), pack(">hqq", 0, upstream, downstream) + text("")


def sync(topic: str, upstream: int, downstream: int) -> tuple[bytes, bytes]:
    return text(topic) + pack(">i", 0), pack(">qq", upstream, downstream)
