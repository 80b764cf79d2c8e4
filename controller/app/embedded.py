"""A controller in the process of another server: Java's `enableControllerInNamesrv`.

It reads the same configuration file for what is a controller's own, and stores there what requests change of that. What
any server has, the addresses it binds, TLS, limits and logs among it, is as the other server has it, and changes
with it; but the ports and the length of a frame are its own. Java's stores in
`~/controller/controller.properties`, which that process never reads.
"""

import dataclasses
import os
import socket
from collections.abc import Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import structs

from controller.config import CONTROLLER, ControllerConfig
from remoting.protocol.addresses import host_and_port
from serving.config.server_config import ServerConfig
from serving.config.sources import IgnoredKey, PropertiesFile, Sources, from_sources, ignored_keys, load_properties

if TYPE_CHECKING:
    from serving.process.process import Shared

#: What is not as the other server has it.
_OWN_FIELDS: Final = frozenset({"listen_port", "http_port", "frame_bytes_max", "unknown", "stored", "others_keys"})
_ALL_INTERFACES: Final = frozenset({"", "0.0.0.0", "::"})
_SHARED_FIELDS: Final = tuple(each.name for each in dataclasses.fields(ServerConfig) if each.name not in _OWN_FIELDS)
#: Properties that the other server has read.
_COMMON_KEYS: Final = frozenset(
    key
    for field in dataclasses.fields(ServerConfig)
    if (option := CONTROLLER.options.get(field.name)) is not None
    for key in (option.key, *option.also)
)


class EmbeddedController(NamedTuple):
    """A controller that is to run beside another server."""

    config: ControllerConfig
    #: Lines of the common file that only mean something to a Java controller.
    ignored: tuple[IgnoredKey, ...]

    def serve(self, shared: "Shared") -> Coroutine[Any, Any, None]:
        """Serve until a signal to stop; raises StartFailed."""
        # Not needed to read the configuration.
        from controller.app.service import Controller, logged_id  # noqa: PLC0415
        from serving.process.process import serve  # noqa: PLC0415

        own_id = logged_id(self.config, socket.gethostname())
        make = partial(Controller, self.config)
        return serve(CONTROLLER, self.config, self.ignored, make, shared, own_id)

    @staticmethod
    def knows(key: str) -> bool:
        return key in CONTROLLER.field_of_key


def embedded_controller(
    config_file: str, other: ServerConfig, listen_port: int, http_port: int, others_keys: Iterable[str]
) -> EmbeddedController:
    """Return the controller that the file of another server configures, with these ports; raises ConfigError.

    Unless it names NameServers, it scales queues by that one alone.
    `others_keys` are the properties of that server, which are changed by requests to it alone.
    """
    environment = {"HOME": str(Path("~").expanduser()), **os.environ}
    file = load_properties(config_file) if config_file else PropertiesFile()
    own = tuple(each for each in file.properties if EmbeddedController.knows(each.key) and each.key not in _COMMON_KEYS)
    options = {"listenPort": str(listen_port), "httpPort": str(http_port)}
    sources = Sources(options=options, environment=environment, file=structs.replace(file, properties=own))
    config = from_sources(CONTROLLER, sources)
    shared = {name: getattr(other, name) for name in _SHARED_FIELDS}
    config = dataclasses.replace(config, **shared, others_keys=frozenset(others_keys))
    if not config.namesrv_addr:
        config = dataclasses.replace(config, namesrv_addr=_loopback_address(other))
    return EmbeddedController(config, ignored_keys(CONTROLLER, sources))


def _loopback_address(other: ServerConfig) -> str:
    host = other.bind_address
    return host_and_port("127.0.0.1" if host in _ALL_INTERFACES else host, other.listen_port)
