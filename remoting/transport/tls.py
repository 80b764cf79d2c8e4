"""TLS contexts as RocketMQ's settings describe them, renewable while connections run.

Answers to `TlsHelper`, `TlsSystemConfig` and the file watching of `NamesrvController` (docs/protocol/remoting.md 11.3).
What goes on in one connection is in `filter.py`; when files are looked at is decided by the service.
"""

import hashlib
import ssl
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal

from remoting.clock import Clock
from remoting.protocol.errors import RemotingError

TlsMode = Literal["disabled", "permissive", "enforcing"]
ClientAuth = Literal["none", "optional", "require"]

_VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_VERIFY_MODES: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}
#: Names of TLS 1.3 suites have no key exchange in them.
_TLS_1_3_SUITES: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_CCM_SHA256",
    "TLS_AES_128_CCM_8_SHA256",
)

_NOT_SET: Final = "not set, and tls.test.mode.enable is false"


class TlsError(RemotingError):
    """A TLS context cannot be made from the settings."""

    def __init__(self, property_name: str, path: str, reason: str) -> None:
        self.property_name = property_name
        self.path = path
        self.reason = reason
        super().__init__(f"{property_name}={path}: {reason}" if path else f"{property_name}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """RocketMQ's `tls.*` properties, named as in `SecurityConfig`; an empty path or list is one that is not set."""

    #: `tls.server.mode`
    server_mode: TlsMode = "permissive"
    #: `tls.test.mode.enable`: a self-signed certificate; no peer is verified, and no path below is read.
    test_mode_enable: bool = True
    #: `tls.server.keyPath`, `.keyPassword`, `.certPath`
    server_key_path: str = ""
    server_key_password: str = field(default="", repr=False)
    server_cert_path: str = ""
    #: `tls.server.authClient`: certificates of clients are verified, against `tls.server.trustCertPath`.
    server_auth_client: bool = False
    server_trust_cert_path: str = ""
    #: `tls.server.need.client.auth`
    server_need_client_auth: ClientAuth = "none"
    #: `tls.ciphers` and `tls.protocols`, commas between; for both sides.
    ciphers: str = ""
    protocols: str = ""
    #: `tls.client.keyPath` and so on, for requests of ours.
    client_key_path: str = ""
    client_key_password: str = field(default="", repr=False)
    client_cert_path: str = ""
    client_auth_server: bool = False
    client_trust_cert_path: str = ""


class TlsContexts:
    """The context for new connections of one server; renewed without touching those that run."""

    def __init__(self, settings: TlsSettings, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        self._failure = TlsError("tls.server.certPath", settings.server_cert_path, "not loaded yet")
        #: When the certificate in use ends; None without one, and for a self-signed one.
        self.certificate_expiry_unix_s: int | None = None
        #: Digests of the files in use, and of those tried last, by property.
        self._used: dict[str, bytes] = {}
        self._tried: dict[str, bytes] = {}

    def server_context(self) -> ssl.SSLContext:
        """Return the context for a new connection, which test mode makes at the first call; raises TlsError."""
        if self._context is None:
            if not self.settings.test_mode_enable:
                raise self._failure
            self._context = self._self_signed_context()
        return self._context

    def reload(self) -> TlsError | None:
        """Read the files again; new connections use what they hold. Return why that failed: the old stays in use."""
        if self.settings.test_mode_enable or self.settings.server_mode == "disabled":
            return None
        self._tried = self._digests()
        try:
            # First, as its error is clearest about with a file that is no certificate.
            expiry = _certificate_expiry(self.settings)
            context = _server_context(self.settings)
        except TlsError as error:
            self._failure = error
            return error
        self._context, self.certificate_expiry_unix_s = context, expiry
        self._used = self._tried
        return None

    def changed(self) -> bool:
        """Return True if the files need a reload: another trust file, or another key *and* another certificate.

        A key alone would not fit the certificate in use; whoever replaces both does so one after the other. A file
        that is gone counts as unchanged. After a failed reload files count as soon as they differ from the failed ones.
        """
        if self.settings.test_mode_enable or self.settings.server_mode == "disabled":
            return False
        now = self._digests()
        if now == self._tried:
            return False
        differs = {name for name, digest in now.items() if digest != self._used.get(name)}
        return "trust" in differs or {"key", "cert"} <= differs

    def _digests(self) -> dict[str, bytes]:
        """Return the digest of each file that is set; of one that is gone, the digest it had."""
        paths = {
            "key": self.settings.server_key_path,
            "cert": self.settings.server_cert_path,
            "trust": self.settings.server_trust_cert_path,
        }
        digests = {}
        for name, path in paths.items():
            digest = _digest(path) or self._tried.get(name)
            if digest is not None:
                digests[name] = digest
        return digests

    def _self_signed_context(self) -> ssl.SSLContext:
        context = _context(ssl.PROTOCOL_TLS_SERVER, self.settings)
        try:
            # The standard library reads keys from files only.
            with tempfile.NamedTemporaryFile(suffix=".pem") as file:
                file.write(self_signed(self._clock.unix_ms() / 1000))
                file.flush()
                context.load_cert_chain(file.name)
        except OSError as error:
            raise TlsError("tls.test.mode.enable", "", f"no certificate can be made: {error}") from None
        return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context for requests of ours; raises TlsError.

    The name in a broker's certificate is not compared: brokers are known by address, and Java does not compare it.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = False
    if settings.test_mode_enable:
        context.verify_mode = ssl.CERT_NONE
        return context
    context.verify_mode = ssl.CERT_REQUIRED if settings.client_auth_server else ssl.CERT_NONE
    if settings.client_auth_server:
        _trust(context, "tls.client.trustCertPath", settings.client_trust_cert_path)
    if settings.client_cert_path:
        _load_chain(
            context, "tls.client", settings.client_cert_path, settings.client_key_path, settings.client_key_password
        )
    return context


def _server_context(settings: TlsSettings) -> ssl.SSLContext:
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings)
    # A peer could have us negotiate without end.
    context.options |= ssl.OP_NO_RENEGOTIATION
    if not settings.server_key_path:
        raise TlsError("tls.server.keyPath", "", _NOT_SET)
    _load_chain(
        context, "tls.server", settings.server_cert_path, settings.server_key_path, settings.server_key_password
    )
    if not settings.server_auth_client:
        if settings.server_need_client_auth == "require":
            # Java would take any certificate; a demand that everybody can meet is no protection.
            raise TlsError("tls.server.need.client.auth", "", "require needs tls.server.authClient=true")
        return context
    context.verify_mode = _VERIFY_MODES[settings.server_need_client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        _trust(context, "tls.server.trustCertPath", settings.server_trust_cert_path)
    return context


def _context(protocol: int, settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    suites = [each.strip() for each in settings.ciphers.split(",") if each.strip()]
    versions = _versions(settings.protocols)
    older = [each for each in suites if each not in _TLS_1_3_SUITES]
    if suites and not older:
        # The suites of TLS 1.3 cannot be chosen one by one, only with the version itself.
        versions = [each for each in versions if each == ssl.TLSVersion.TLSv1_3]
    elif len(older) == len(suites) and suites:
        versions = [each for each in versions if each != ssl.TLSVersion.TLSv1_3]
    if not versions:
        raise TlsError("tls.ciphers", settings.ciphers, f"none of them belongs to tls.protocols={settings.protocols}")
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if older:
        try:
            context.set_ciphers(":".join(_openssl_name(each) for each in older))
        except ssl.SSLError:
            raise TlsError("tls.ciphers", settings.ciphers, "no cipher of this name is known") from None
    return context


def _versions(protocols: str) -> list[ssl.TLSVersion]:
    """Return the TLS versions that a comma-separated list allows; those from 1.2 on if it is empty."""
    names = [each.strip() for each in protocols.split(",") if each.strip()] or ["TLSv1.2", "TLSv1.3"]
    for name in names:
        if name not in _VERSIONS:
            raise TlsError("tls.protocols", protocols, f"{name} is not one of {', '.join(_VERSIONS)}")
    return [_VERSIONS[name] for name in names]


def _openssl_name(suite: str) -> str:
    """Return how OpenSSL spells a suite of TLS 1.2, of which Java may give the name of the RFCs.

    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256; without a key exchange it is plain RSA.
    """
    if not suite.startswith("TLS_"):
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_", "AES").replace("_CBC", "").replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")


def _load_chain(context: ssl.SSLContext, side: str, cert_path: str, key_path: str, password: str) -> None:
    for what, path in (("certPath", cert_path), ("keyPath", key_path)):
        _read(f"{side}.{what}", path)
    try:
        # Always with a password: without one OpenSSL would ask for it on the terminal.
        context.load_cert_chain(cert_path, key_path, password)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or "the password is wrong or missing"
        raise TlsError(f"{side}.keyPath", key_path, f"does not go with {cert_path}: {reason}") from None


def _trust(context: ssl.SSLContext, property_name: str, path: str) -> None:
    if not path:
        context.load_default_certs()
        return
    _read(property_name, path)
    try:
        context.load_verify_locations(path)
    except (ssl.SSLError, OSError):
        raise TlsError(property_name, path, "no certificate in PEM form") from None


def _certificate_expiry(settings: TlsSettings) -> int:
    name, path = "tls.server.certPath", settings.server_cert_path
    if not path:
        raise TlsError(name, "", _NOT_SET)
    try:
        return expiry_unix_s(_read(name, path))
    except ValueError as error:
        raise TlsError(name, path, str(error)) from None


def _read(property_name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise TlsError(property_name, path, error.strerror or str(error)) from None


def _digest(path: str) -> bytes | None:
    try:
        return hashlib.sha256(Path(path).read_bytes()).digest() if path else None
    except OSError:
        return None


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
