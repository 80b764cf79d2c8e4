"""A controller in the process of another server: Java's `enableControllerInNamesrv`.

It reads the same configuration file for what is a controller's own. What any server has, the addresses it binds, TLS,
limits and logs among it, is as the other server has it, but for the ports.
"""

import dataclasses
import os
import socket
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from controller.config import CONTROLLER, ControllerConfig
from serving.config import ServerConfig
from serving.config_sources import IgnoredKey, PropertiesFile, Sources, from_sources, ignored_keys
from serving.properties_files import load_properties

if TYPE_CHECKING:
    from serving.process import Shared

#: What is not as the other server has it; changes of the configuration do not go into the other server's file.
_OWN_FIELDS: Final = frozenset({"listen_port", "http_port", "config_store_path", "unknown", "stored"})
_SHARED_FIELDS: Final = tuple(each.name for each in dataclasses.fields(ServerConfig) if each.name not in _OWN_FIELDS)
#: Properties that the other server has read.
_COMMON_KEYS: Final = frozenset(
    key
    for field in dataclasses.fields(ServerConfig)
    if (option := CONTROLLER.options.get(field.name)) is not None
    for key in (option.key, *option.also)
)


class Beside(NamedTuple):
    """A controller that is to run beside another server."""

    config: ControllerConfig
    #: Lines of the common file that only mean something to a Java controller.
    ignored: tuple[IgnoredKey, ...]

    def serve(self, shared: "Shared") -> Coroutine[Any, Any, None]:
        """Serve until the signals say to stop; raises NotStarted."""
        # Not needed to read the configuration.
        from controller.identity import logged_id  # noqa: PLC0415
        from controller.service import Controller  # noqa: PLC0415
        from serving.process import serve  # noqa: PLC0415

        own_id = logged_id(self.config, socket.gethostname())
        make = partial(Controller, self.config)
        return serve(CONTROLLER, self.config, self.ignored, make, shared, own_id)

    @staticmethod
    def knows(key: str) -> bool:
        """Tell whether a property of the common file is the controller's."""
        return key in CONTROLLER.field_of_key


def controller_beside(config_file: str, other: ServerConfig, listen_port: int, http_port: int) -> Beside:
    """Return what the file of another server says of a controller, which gets these ports; raises ConfigError."""
    own_store = {CONTROLLER.variable(CONTROLLER.options["config_store_path"]): CONTROLLER.defaults.config_store_path}
    environment = {"HOME": str(Path("~").expanduser()), **own_store, **os.environ}
    file = load_properties(config_file) if config_file else PropertiesFile()
    own = tuple(each for each in file.properties if Beside.knows(each.key) and each.key not in _COMMON_KEYS)
    options = {
        "listenPort": str(listen_port),
        "httpPort": str(http_port),
    }
    sources = Sources(options=options, environment=environment, file=PropertiesFile(file.path, own))
    config = from_sources(CONTROLLER, sources)
    shared = {name: getattr(other, name) for name in _SHARED_FIELDS}
    # Its own file takes what requests change, and no copy of the other server's, with the secrets in it.
    return Beside(dataclasses.replace(config, **shared, stored=()), ignored_keys(CONTROLLER, sources))
