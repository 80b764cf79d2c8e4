"""The options of servers that may keep their state in etcd, and what of them does not go together."""

from collections.abc import Iterable
from typing import Final, Protocol

from serving.config.options import AddressList, FilePath, Fixed, Option, Secret, Text

_PATH: Final = FilePath()
_TEXT: Final = Text()
#: Why no request changes an option.
STORE: Final = Fixed("it decides where state is kept, and by whom")

ETCD_ENDPOINTS: Final = Option(
    "etcdEndpoints", AddressList(), "Members of etcd as host:port, with a ';' between.", STORE
)
ETCD_USER: Final = Option("etcdUser", _TEXT, "User of etcd; blank for none.", STORE)
ETCD_PASSWORD: Final = Option("etcdPassword", Secret(), "Password of that user.", STORE)
ETCD_CA_PATH: Final = Option("etcdCaPath", _PATH, "Authorities that etcd is verified with, PEM; blank: no TLS.", STORE)
ETCD_CERT_PATH: Final = Option("etcdCertPath", _PATH, "Certificate chain for etcd, PEM.", STORE)
ETCD_KEY_PATH: Final = Option("etcdKeyPath", _PATH, "Private key of that, PEM.", STORE)


class EtcdSettings(Protocol):
    """A configuration with these options."""

    @property
    def etcd_endpoints(self) -> str:
        """Members of etcd."""

    @property
    def etcd_user(self) -> str:
        """Blank for none."""

    @property
    def etcd_password(self) -> str:
        """Of that user."""

    @property
    def etcd_ca_path(self) -> str:
        """Blank: no TLS."""

    @property
    def etcd_cert_path(self) -> str:
        """Of this server."""

    @property
    def etcd_key_path(self) -> str:
        """Of that certificate."""


def etcd_conflicts(config: EtcdSettings, store: str, store_key: str) -> Iterable[tuple[str, str]]:
    """Yield what does not go together; `store` is the kind of store that the option `store_key` names."""
    if store == "etcd" and not config.etcd_endpoints:
        yield "etcd_endpoints", f"set as well, because {store_key} is etcd"
    if bool(config.etcd_cert_path) != bool(config.etcd_key_path):
        missing = "etcd_key_path" if config.etcd_cert_path else "etcd_cert_path"
        yield missing, "set as well: a certificate and its key go together"
    if config.etcd_password and not config.etcd_user:
        yield "etcd_user", "set as well, because etcdPassword is"
