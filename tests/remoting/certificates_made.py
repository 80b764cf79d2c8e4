"""Keys and certificates for TLS tests, written as the PEM files an operator would have."""

import datetime as dt
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

BEGIN = dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
END = dt.datetime(2049, 12, 31, 23, 59, 59, tzinfo=dt.UTC)


def end_unix_s(end=END):
    return int(end.timestamp())


def _usage(*, signs_certificates):
    unused = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        **dict.fromkeys((*unused, "encipher_only", "decipher_only"), False),
    )


class Authority:
    """Signs certificates that name "localhost"."""

    def __init__(self, name="Test Authority"):
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self._name, self._key.public_key(), END, is_authority=True)

    def _sign(self, name, public_key, end, *, is_authority):
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(BEGIN)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
                ),
                critical=False,
            )
            # Python 3.13 takes no certificate without these.
            .add_extension(_usage(signs_certificates=is_authority), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def write(self, path):
        """Write the certificate of the authority, and return the path as text."""
        path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))
        return str(path)

    def write_pair(self, folder, name, *, password="", end=END):
        """Write a new key and its certificate chain; return both paths as text."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key.public_key(), end, is_authority=False)
        encryption = (
            serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        )
        key_path, cert_path = folder / f"{name}.key", folder / f"{name}.pem"
        key_path.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )
        chain = [each.public_bytes(serialization.Encoding.PEM) for each in (certificate, self.certificate)]
        cert_path.write_bytes(b"".join(chain))
        return str(key_path), str(cert_path)
