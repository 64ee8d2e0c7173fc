"""Certificates that their authority has taken back: a CRL (RFC 5280) beside the CA, in PEM.

OpenSSL looks a certificate up in the list of who has signed it, and refuses one for which there is no list, or only a
list whose time is over: so a list that nobody renews lets nobody in, rather than everybody.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from cryptography import x509


def refuse_revoked(context: ssl.SSLContext, crl: Path) -> None:
    """Have a context refuse peers whose own certificate is in the list.

    Raises:
        OSError, ValueError: the file cannot be read, or is no list. (ssl.SSLError is an OSError.)
    """
    try:
        x509.load_pem_x509_crl(crl.read_bytes())
    except ValueError:
        raise ValueError("it is no list of revoked certificates (CRL) in PEM") from None
    context.load_verify_locations(crl)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
