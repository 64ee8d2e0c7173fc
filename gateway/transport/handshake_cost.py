"""What a TLS handshake costs a server with its certificate: measured, as it is a matter of key and machine."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_TIMES: Final = 3
_STEPS: Final = 8


def handshake_cost(server: ssl.SSLContext, cpu: Callable[[], float] = time.thread_time) -> float:
    """Seconds of CPU that the server's side takes, the least of three times.

    A client without a certificate is played in memory, and trusts everybody; where the server demands one, it is what
    the handshake costs up to that.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    return min(_cost(server, client, cpu) for _ in range(_TIMES))


def _cost(server: ssl.SSLContext, client: ssl.SSLContext, cpu: Callable[[], float]) -> float:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asks = client.wrap_bio(to_client, to_server)
    answers = server.wrap_bio(to_server, to_client, server_side=True)
    spent = 0.0
    for _ in range(_STEPS):
        with suppress(ssl.SSLWantReadError):
            asks.do_handshake()
        before = cpu()
        over = _is_over(answers)
        spent += cpu() - before
        if over:
            break
    return spent


def _is_over(answers: ssl.SSLObject) -> bool:
    try:
        answers.do_handshake()
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:  # no certificate of the client's
        return True
    return True
