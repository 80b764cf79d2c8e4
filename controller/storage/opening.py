"""Opens the store that the configuration asks for."""

from pathlib import Path

from controller.config import ControllerConfig
from controller.storage.embedded import EmbeddedStore
from controller.storage.observer import StoreObserver
from controller.storage.store import StoreBackend
from remoting.clock import Clock


def open_store(config: ControllerConfig, clock: Clock, observer: StoreObserver) -> StoreBackend:
    """Return the store; raises StoreError if it cannot be opened."""
    if config.controller_store == "embedded":
        return EmbeddedStore(Path(config.controller_store_path), observer)
    # It loads gRPC, which takes a while and which nobody else needs.
    from controller.storage.etcd.etcd_store import EtcdOptions, EtcdStore  # noqa: PLC0415

    options = EtcdOptions(
        endpoints=tuple(config.etcd_endpoints.split(";")),
        group=config.controller_group,
        user=config.etcd_user,
        password=config.etcd_password,
        ca_file=config.etcd_ca_path,
        cert_file=config.etcd_cert_path,
        key_file=config.etcd_key_path,
    )
    return EtcdStore(options, clock, observer)
