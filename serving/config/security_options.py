"""The options that decide whom a server trusts: TLS, the admin token, the keys that it signs with for brokers with ACL.

The first answer to Java's `TlsSystemConfig`.
"""

from dataclasses import dataclass
from typing import Final, get_args

from remoting.transport.tls import ClientAuth, TlsMode, TlsSettings
from serving.config.console_options import ConsoleConfig
from serving.config.options import NAMES_A_FILE, FilePath, Fixed, Flag, NamedAddressList, OneOf, Secret, Text, option

_FLAG: Final = Flag()
_PATH: Final = FilePath()
_SIGNS: Final = Fixed("it is the identity of this server at brokers")
_GUARDS: Final = Fixed("it decides who may connect, and to whom this server connects")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig(ConsoleConfig):
    """Options of any server about TLS, tokens and keys; those about the console are inherited."""

    # TlsSystemConfig; all read by process.py, which hands them to remoting/transport/tls.py

    tls_server_mode: TlsMode = option(
        "permissive",
        "tls.server.mode",
        OneOf(get_args(TlsMode)),
        "TLS for peers: disabled, permissive (allowed) or enforcing (required).",
        _GUARDS,
    )
    tls_test_mode_enable: bool = option(
        True,
        "tls.test.mode.enable",
        _FLAG,
        "Use a self-signed certificate created at the start, and do not verify peers.",
        _GUARDS,
    )
    tls_server_key_path: str = option("", "tls.server.keyPath", _PATH, "Private key, PEM.", _GUARDS)
    tls_server_key_password: str = option(
        "", "tls.server.keyPassword", Secret(), "Password of the private key.", _GUARDS
    )
    tls_server_cert_path: str = option("", "tls.server.certPath", _PATH, "Certificate chain, PEM.", _GUARDS)
    tls_server_auth_client: bool = option(
        False, "tls.server.authClient", _FLAG, "Verify the certificates of clients.", _GUARDS
    )
    tls_server_trust_cert_path: str = option(
        "", "tls.server.trustCertPath", _PATH, "Certificate authorities of clients, PEM.", _GUARDS
    )
    tls_server_need_client_auth: ClientAuth = option(
        "none",
        "tls.server.need.client.auth",
        OneOf(get_args(ClientAuth)),
        "Client certificates: none, optional or require.",
        _GUARDS,
    )
    #: Its default is true while tls.server.mode is enforcing (sources.py), as with Java since 5.1.4.
    tls_enable: bool = option(
        False,
        "tls.enable",
        _FLAG,
        "Send requests to brokers over TLS; true while tls.server.mode is enforcing.",
        _GUARDS,
        also=("useTLS",),
    )
    tls_ciphers: str = option("", "tls.ciphers", Text(), "Ciphers, separated by ','.", _GUARDS)
    tls_protocols: str = option("", "tls.protocols", Text(), "TLS versions, separated by ','.", _GUARDS)
    tls_client_key_path: str = option(
        "", "tls.client.keyPath", _PATH, "Private key for requests to brokers, PEM.", _GUARDS
    )
    tls_client_key_password: str = option(
        "", "tls.client.keyPassword", Secret(), "Password of the private key for requests to brokers.", _GUARDS
    )
    tls_client_cert_path: str = option(
        "", "tls.client.certPath", _PATH, "Certificate chain for requests to brokers, PEM.", _GUARDS
    )
    tls_client_auth_server: bool = option(
        False, "tls.client.authServer", _FLAG, "Verify the certificates of brokers.", _GUARDS
    )
    tls_client_trust_cert_path: str = option(
        "", "tls.client.trustCertPath", _PATH, "Certificate authorities of brokers, PEM.", _GUARDS
    )
    http_admin_token_file: str = option(
        "",
        "httpAdminTokenFile",
        _PATH,
        "File whose first line, at least 16 characters, is the token for changes over HTTP; read again when it "
        "changes; blank: changes are refused.",
        NAMES_A_FILE,
    )

    # Who we are for brokers with ACL; all read by broker_access.py

    broker_access_key: str = option(
        "", "brokerAccessKey", Secret(), "Access key (user) that signs requests to brokers with ACL.", _SIGNS
    )
    broker_access_key_path: str = option(
        "", "brokerAccessKeyPath", _PATH, "File with the access key, read at the start.", NAMES_A_FILE
    )
    broker_secret_key: str = option("", "brokerSecretKey", Secret(), "Secret key (password) of that user.", _SIGNS)
    broker_secret_key_path: str = option(
        "", "brokerSecretKeyPath", _PATH, "File with the secret key, read at the start.", NAMES_A_FILE
    )
    broker_access_addresses: str = option(
        "",
        "brokerAccessAddresses",
        NamedAddressList(),
        "Brokers whose requests are signed, separated by ';': IP addresses, networks (10.0.0.0/16) or host names as "
        "brokers register them, with or without :port. Required with the keys, unless tls.enable, "
        "tls.client.authServer and tls.client.trustCertPath verify all brokers.",
        Fixed("it decides which brokers get signed requests"),
    )

    #: Read by start.py.
    tls_config_file: str = option(
        "/etc/rocketmq/tls.properties",
        "tls.config.file",
        _PATH,
        "Additional file with tls.* properties; ignored if it does not exist.",
        _GUARDS,
    )

    @property
    def verifies_brokers(self) -> bool:
        """True if brokers that this server calls show certificates of an authority that the operator names.

        Without tls.client.trustCertPath it is any authority that the system trusts: anybody can get such a certificate.
        """
        verifies = self.tls_enable and self.tls_client_auth_server and not self.tls_test_mode_enable
        return verifies and bool(self.tls_client_trust_cert_path)


def tls_settings_of(config: SecurityConfig) -> TlsSettings:
    return TlsSettings(**{name: getattr(config, f"tls_{name}") for name in TlsSettings.__dataclass_fields__})
