"""Certificates as bytes: when one expires, and a self-signed one for the test mode.

Answers to Netty's `SelfSignedCertificate`. No file and no TLS context is known here.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

#: A self-signed certificate is never renewed, so it outlives every process.
_SELF_SIGNED_DAYS: Final = 3650


def expiry_unix_s(chain_pem: bytes) -> int:
    """Return the Unix second at which the first certificate of a chain expires; raises ValueError if there is none."""
    # Only a server with certificate files needs it: 10 MB and 0.1 s that others do not spend.
    from cryptography import x509  # noqa: PLC0415

    try:
        certificate = x509.load_pem_x509_certificate(chain_pem)
    except ValueError:
        raise ValueError("no certificate in PEM form") from None
    return int(certificate.not_valid_after_utc.timestamp())


def self_signed(now_unix_s: float) -> bytes:
    """Return a private key and its certificate for "localhost", both PEM, in one text.

    An elliptic curve key takes no noticeable time to make, and every Java since 8 accepts it.
    """
    # Only a server in test mode with a TLS connection needs it.
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
