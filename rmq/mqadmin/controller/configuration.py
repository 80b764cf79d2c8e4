"""getControllerConfig and updateControllerConfig."""

from typing import Final

from remoting.admin.configuration import update_controller_config
from remoting.protocol.codes import RequestCode
from rmq.mqadmin.admin import Admin, MqadminCommand
from rmq.mqadmin.configuration_text import print_configurations
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, value


def _servers(line: CommandLine) -> list[str]:
    return [each for each in line.needed("a").split(";") if each]


async def _get(admin: Admin, line: CommandLine) -> None:
    await print_configurations(admin, _servers(line), RequestCode.GET_CONTROLLER_CONFIG)


async def _update(admin: Admin, line: CommandLine) -> None:
    key, text, servers = line.needed("k"), line.needed("v"), _servers(line)
    await admin.at_each(servers, update_controller_config({key: text}))
    admin.printf("update controller config success!%s%n%s : %s%n", f"[{', '.join(servers)}]", key, text)


GET_CONTROLLER_CONFIG: Final = MqadminCommand(
    options_of(
        value("a", "controllerAddress", "Controller address list, eg: 192.168.0.1:9878;192.168.0.2:9878", required=True)
    ),
    _get,
)
UPDATE_CONTROLLER_CONFIG: Final = MqadminCommand(
    options_of(
        value(
            "a", "controllerAddress", "Controller address list, eg: 192.168.0.1:9878;192.168.0.2:9878", required=True
        ),
        value("k", "key", "config key", required=True),
        value("v", "value", "config value", required=True),
    ),
    _update,
)
