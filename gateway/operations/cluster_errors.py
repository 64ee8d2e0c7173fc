"""What a cluster answers, or does not, as the errors that an operator sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gateway.errors import Conflict, SourceUnreachable, TargetUnreachable
from gateway.kafka.connection.errors import ClusterUnavailable, NetError


@contextmanager
def source_errors(link: str) -> Iterator[None]:
    """Turn errors of the Kafka client into SourceUnreachable, or Conflict when the source refuses."""
    try:
        yield
    except (ClusterUnavailable, TimeoutError, OSError) as exc:
        raise SourceUnreachable(f"the source of link '{link}': {str(exc) or 'no answer in time'}") from exc
    except NetError as exc:
        raise Conflict(f"the source of link '{link}' refuses: {exc}") from exc


@contextmanager
def target_errors() -> Iterator[None]:
    """Turn errors of the Kafka client into TargetUnreachable, or Conflict when the target refuses."""
    try:
        yield
    except (ClusterUnavailable, TimeoutError, OSError) as exc:
        raise TargetUnreachable(f"the target cluster: {str(exc) or 'no answer in time'}") from exc
    except NetError as exc:
        raise Conflict(f"the target cluster refuses: {exc}") from exc
