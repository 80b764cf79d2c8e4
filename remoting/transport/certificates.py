"""Certificates as bytes: when one ends, and one made on the spot for the test mode.

Answers to Netty's `SelfSignedCertificate`. No file and no TLS context is known here.
"""

import re
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Final

#: A certificate made on the spot is never renewed, so it outlives every process.
_SELF_SIGNED_DAYS: Final = 3650

# As OpenSSL reads them; a trusted certificate has more behind its end, which is not looked at.
_PEM: Final = re.compile(r"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----(.*?)-----END ", re.DOTALL)

# DER: how an element's first byte tells what it is.
_EXPLICIT_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_LONG_LENGTH: Final = 0x80


def expiry_unix_s(chain_pem: str) -> int:
    """Return the Unix second at which the first certificate of a chain ends; raises ValueError if there is none.

    The standard library tells it only of a peer's certificate, and `cryptography` is not worth its memory here.
    """
    first = _PEM.search(chain_pem)
    if first is None:
        raise ValueError("no certificate in PEM form")
    try:
        return _not_after(b64decode(first[1]))
    except IndexError:
        raise ValueError("a certificate ends too early") from None


def _not_after(der: bytes) -> int:
    # Certificate > tbsCertificate > [version], serial, algorithm, issuer, validity > notBefore, notAfter (RFC 5280 4.1)
    _, at, _ = _element(der, 0)
    _, at, _ = _element(der, at)
    kind, _, after = _element(der, at)
    if kind == _EXPLICIT_VERSION:
        at = after
    for _ in ("serial", "algorithm", "issuer"):
        at = _element(der, at)[2]
    _, at, _ = _element(der, at)
    at = _element(der, at)[2]
    kind, at, after = _element(der, at)
    form = "%y%m%d%H%M%SZ" if kind == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return int(datetime.strptime(der[at:after].decode("ascii"), form).replace(tzinfo=UTC).timestamp())


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Return an element's kind, where its content begins, and where it ends."""
    kind, length = der[at], der[at + 1]
    at += 2
    if length & _LONG_LENGTH:
        size = length & ~_LONG_LENGTH
        length = int.from_bytes(der[at : at + size])
        at += size
    return kind, at, at + length


def self_signed(now_unix_s: float) -> bytes:
    """Return a private key and its certificate for "localhost", both PEM, in one text.

    An elliptic curve key takes no noticeable time to make, and every Java since 8 accepts it.
    """
    # Only a server in test mode that is asked for TLS needs it: 10 MB and 0.1 s that others do not spend.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.fromtimestamp(now_unix_s, UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A day back, for peers whose clock is behind ours.
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=_SELF_SIGNED_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return key_pem + certificate.public_bytes(serialization.Encoding.PEM)
