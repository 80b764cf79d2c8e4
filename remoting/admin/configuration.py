"""Requests for the configuration of one server, whole: of a broker, a NameServer, a controller. Pure.

Some options of a broker: `brokers.broker_options`. `proposed` are options that may be changed next: our servers refuse
to answer if they would refuse those, and servers of Java do not look at them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from remoting.admin.admin_request import AdminRequest, command, read_nothing
from remoting.protocol.codes import BrokerRequestCode, RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.properties import file_text

Options = Mapping[str, str]
_NOTHING: Final[Options] = MappingProxyType({})


def broker_config(proposed: Options = _NOTHING) -> AdminRequest[Options]:
    """Request all options of a broker (26). Source: docs/protocol/broker-admin.md 26."""
    return AdminRequest(command(RequestCode.GET_BROKER_CONFIG, body=_text(proposed)), _read_options)


def namesrv_config(proposed: Options = _NOTHING) -> AdminRequest[Options]:
    """Request all options of a NameServer (319). Source: docs/protocol/namesrv.md 2.21."""
    return AdminRequest(command(RequestCode.GET_NAMESRV_CONFIG, body=_text(proposed)), _read_options)


def controller_config(proposed: Options = _NOTHING) -> AdminRequest[Options]:
    """Request all options of a controller (1010). Source: docs/protocol/controller.md 1.11."""
    return AdminRequest(command(RequestCode.GET_CONTROLLER_CONFIG, body=_text(proposed)), _read_options)


def update_broker_config(options: Mapping[str, str]) -> AdminRequest[None]:
    """Change options of a broker while it runs (25); one that its release does not have is ignored.

    Raises Refused with code 16 for one that may not be changed. Source: docs/protocol/broker-admin.md 35.
    """
    return AdminRequest(command(BrokerRequestCode.UPDATE_BROKER_CONFIG, body=_text(options)), read_nothing)


def update_namesrv_config(options: Mapping[str, str]) -> AdminRequest[None]:
    """Change options of a NameServer while it runs (318); as `update_broker_config`.

    Source: docs/protocol/namesrv.md 2.20.
    """
    return AdminRequest(command(RequestCode.UPDATE_NAMESRV_CONFIG, body=_text(options)), read_nothing)


def update_controller_config(options: Mapping[str, str]) -> AdminRequest[None]:
    """Change options of a controller while it runs (1009); as `update_broker_config`.

    Source: docs/protocol/controller.md 1.11.
    """
    return AdminRequest(command(RequestCode.UPDATE_CONTROLLER_CONFIG, body=_text(options)), read_nothing)


def _text(options: Mapping[str, str]) -> bytes:
    return file_text(options).encode() if options else b""


def _read_options(answer: RemotingCommand) -> dict[str, str]:
    # A listing: Java escapes nothing in it, so it is not read as properties.
    pairs = (line.partition("=") for line in answer.body.decode(errors="replace").split("\n") if line)
    return {name: value for name, _, value in pairs}
