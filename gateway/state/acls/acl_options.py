"""Readers of a link's options for ACL sync that are more than a word or a number. Pure."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Final

from gateway.kafka.rules.principal_mapping import PrincipalMapping

ANY_HOST: Final = "*"
MAX_HOSTS: Final = 64
MAX_MAPPING: Final = 65_536
"""Characters of the rules for principals."""


def principal_rules(text: str) -> str:
    """Kafka's principal mapping rules, as they are given; they are applied to all of `User:NAME`.

    Raises:
        ValueError: a rule of no use, or too many.
    """
    if len(text) > MAX_MAPPING:
        raise ValueError(f"{text[:20]!r}... is longer than {MAX_MAPPING} characters")
    PrincipalMapping(text)
    return text


def hosts(text: str) -> tuple[str, ...]:
    """IP addresses between commas, or `*`; as brokers write them, which compare them as text.

    Raises:
        ValueError: another one, or too many.
    """
    found = tuple(dict.fromkeys(_host(host.strip()) for host in text.split(",") if host.strip()))
    if len(found) > MAX_HOSTS:
        raise ValueError(f"{len(found)} hosts, {MAX_HOSTS} are possible")
    return found


def _host(text: str) -> str:
    if text == ANY_HOST:
        return text
    try:
        address = ip_address(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an IP address: ACLs know hosts by their addresses only") from None
    if isinstance(address, IPv6Address):
        return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))  # Java writes all of them
    return str(address)
