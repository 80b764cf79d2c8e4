"""The options of servers that may keep their state in etcd, and what of them does not go together."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from serving.config.options import AddressList, FilePath, Fixed, Secret, Text, option
from serving.config.server_config import ServerConfig

_PATH: Final = FilePath()
#: Why no request changes an option.
STORE: Final = Fixed("it decides where state is stored, and by whom")


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdConfig(ServerConfig):
    """Options of a server that may keep its state in etcd. Read by store/etcd/client.py."""

    etcd_endpoints: str = option(
        "", "etcdEndpoints", AddressList(), "Members of etcd as host:port, separated by ';'.", STORE
    )
    etcd_user: str = option("", "etcdUser", Text(), "User of etcd; blank: none.", STORE)
    etcd_password: str = option("", "etcdPassword", Secret(), "Password of the etcd user.", STORE)
    etcd_ca_path: str = option("", "etcdCaPath", _PATH, "Certificate authorities of etcd, PEM; blank: no TLS.", STORE)
    etcd_cert_path: str = option("", "etcdCertPath", _PATH, "Certificate chain for etcd, PEM.", STORE)
    etcd_key_path: str = option("", "etcdKeyPath", _PATH, "Private key for etcd, PEM.", STORE)


def etcd_conflicts(config: EtcdConfig, store: str, store_key: str) -> Iterable[tuple[str, str]]:
    """Yield what does not go together; `store` is the kind of store that the option `store_key` names."""
    if store == "etcd" and not config.etcd_endpoints:
        yield "etcd_endpoints", f"set as well, because {store_key} is etcd"
    if bool(config.etcd_cert_path) != bool(config.etcd_key_path):
        missing = "etcd_key_path" if config.etcd_cert_path else "etcd_cert_path"
        yield missing, "set as well: a certificate and its key go together"
    if config.etcd_password and not config.etcd_user:
        yield "etcd_user", "set as well, because etcdPassword is"
