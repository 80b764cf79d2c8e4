"""Requests for the configuration of one server, whole: of a broker, a NameServer, a controller. Pure.

Some options of a broker: `brokers.broker_options`. `proposed` are options that may be changed next: our servers refuse
to answer if they would refuse those, and servers of Java do not look at them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from remoting.admin.admin_request import AdminRequest, command, read_nothing
from remoting.protocol.codes import BrokerRequestCode, RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.properties import file_text

Options = Mapping[str, str]
ServerKind = Literal["broker", "namesrv", "controller"]
_NOTHING: Final[Options] = MappingProxyType({})
#: What reads the options of a server, and what changes them.
_CODES: Final[Mapping[ServerKind, tuple[int, int]]] = {
    "broker": (RequestCode.GET_BROKER_CONFIG, BrokerRequestCode.UPDATE_BROKER_CONFIG),
    "namesrv": (RequestCode.GET_NAMESRV_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG),
    "controller": (RequestCode.GET_CONTROLLER_CONFIG, RequestCode.UPDATE_CONTROLLER_CONFIG),
}


def server_config(server: ServerKind, proposed: Options = _NOTHING) -> AdminRequest[Options]:
    """Request all options of a server: 26 of a broker, 319 of a NameServer, 1010 of a controller.

    Source: docs/protocol/broker-admin.md 26, docs/protocol/namesrv.md 2.21, docs/protocol/controller.md 1.11.
    """
    return AdminRequest(command(_CODES[server][0], body=_text(proposed)), _read_options)


def update_config(server: ServerKind, options: Options) -> AdminRequest[None]:
    """Change options of a server while it runs (25, 318, 1009); one that its release does not have is ignored.

    Raises Refused with code 16 for one that may not be changed.
    Source: docs/protocol/broker-admin.md 35, docs/protocol/namesrv.md 2.20, docs/protocol/controller.md 1.11.
    """
    return AdminRequest(command(_CODES[server][1], body=_text(options)), read_nothing)


def _text(options: Mapping[str, str]) -> bytes:
    return file_text(options).encode() if options else b""


def _read_options(answer: RemotingCommand) -> dict[str, str]:
    # A listing: Java escapes nothing in it, so it is not read as properties.
    pairs = (line.partition("=") for line in answer.body.decode(errors="replace").split("\n") if line)
    return {name: value for name, _, value in pairs}
