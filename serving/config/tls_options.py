"""The `tls.*` options as the wire protocol takes them."""

from remoting.transport.tls import TlsSettings
from serving.config.server_config import ServerConfig


def settings_of(config: ServerConfig) -> TlsSettings:
    """Return what the configuration says of TLS."""
    return TlsSettings(
        mode=config.tls_server_mode,
        test_mode=config.tls_test_mode_enable,
        key_path=config.tls_server_key_path,
        key_password=config.tls_server_key_password,
        cert_path=config.tls_server_cert_path,
        auth_client=config.tls_server_auth_client,
        trust_cert_path=config.tls_server_trust_cert_path,
        need_client_auth=config.tls_server_need_client_auth,
        ciphers=config.tls_ciphers,
        protocols=config.tls_protocols,
        client_key_path=config.tls_client_key_path,
        client_key_password=config.tls_client_key_password,
        client_cert_path=config.tls_client_cert_path,
        client_auth_server=config.tls_client_auth_server,
        client_trust_cert_path=config.tls_client_trust_cert_path,
    )
