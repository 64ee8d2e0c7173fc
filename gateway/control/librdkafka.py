"""What is particular to librdkafka: its property names, and what its errors mean for the state."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from gateway.control.store_errors import ProducerFenced, StoreError
from gateway.net.config import ClusterConfig


def librdkafka_properties(config: ClusterConfig) -> dict[str, str | int | float | bool]:
    """The connection part of a cluster's configuration in librdkafka's words."""
    properties: dict[str, str | int | float | bool] = {
        "bootstrap.servers": ",".join(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in config.bootstrap),
        "client.id": config.client_id,
        "security.protocol": config.security_protocol,
        "log_level": 2,  # what it says of its connections, `net.pool` says once
    }
    if config.uses_sasl:
        properties["sasl.mechanism"] = config.sasl_mechanism
        properties["sasl.username"] = config.sasl_username
        properties["sasl.password"] = config.sasl_password
    if config.uses_tls:
        tls = config.tls
        properties["enable.ssl.certificate.verification"] = tls.verify_certificate
        properties["ssl.endpoint.identification.algorithm"] = "https" if tls.verify_hostname else "none"
        paths = {
            "ssl.ca.location": tls.ca,
            "ssl.certificate.location": tls.certificate,
            "ssl.key.location": tls.key or tls.certificate,  # one PEM file may hold both
            "ssl.key.password": tls.key_password,
        }
        properties.update({name: value for name, value in paths.items() if value})
    return properties


def error_of(exc: KafkaException) -> KafkaError:
    """The error inside the exception."""
    error: KafkaError = exc.args[0]
    return error


def is_fenced(error: KafkaError) -> bool:
    """Another producer has the transactional id now."""
    return error.code() in (
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    )


def is_passing(error: KafkaError) -> bool:
    """Connection troubles, which librdkafka heals by itself, and reports as errors of the consumer."""
    return error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE)


def translated(exc: KafkaException, what: str) -> StoreError:
    """The store's own error for one of librdkafka's."""
    error = error_of(exc)
    if is_fenced(error):
        return ProducerFenced("another lockgate process has taken over the state topic; this one must stop")
    if error.fatal():
        return ProducerFenced(f"this process can no longer write the state topic: {error.str()}")
    return StoreError(f"{what}: {error.str()}")
