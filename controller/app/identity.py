"""What brokers, other controllers and readers of logs know this controller by.

Answers to the addresses of DLedger's peers in Java's `ControllerConfig`; here brokers get advertisedAddress.
"""

from controller.config import ControllerConfig
from remoting.protocol.addresses import host_and_port
from serving.process.own_address import address_towards_others, advertised_host
from serving.process.start import StartFailed
from store.store import ControllerMember


def member_of(config: ControllerConfig, port: int) -> ControllerMember:
    """Return this controller as the group and `/v1/controllers` show it; `port` is 0 while it does not listen yet.

    Raises StartFailed for a controller on etcd that would advertise a loopback address because it found no other: all
    such controllers would be one.
    """
    address = config.advertised_address
    if not address:
        if config.controller_store == "etcd" and address_towards_others(config.bind_address) is None:
            raise StartFailed(
                f"no address of this machine was found at which others reach it, and bindAddress is "
                f"{config.bind_address}: set advertisedAddress to host:port, as others reach this controller"
            )
        address = host_and_port(advertised_host(config.bind_address), port or config.listen_port)
    return ControllerMember(id=config.controller_id or address, address=address)


def logged_id(config: ControllerConfig, host_name: str) -> str:
    """Return the id of this controller before it is started: that of the group, or the host's name without address."""
    host = address_towards_others(config.bind_address)
    return config.controller_id or config.advertised_address or host_and_port(host or host_name, config.listen_port)
