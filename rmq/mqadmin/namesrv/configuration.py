"""getNamesrvConfig and updateNamesrvConfig."""

from typing import Final

from remoting.admin.configuration import update_namesrv_config
from remoting.protocol.codes import RequestCode
from rmq.mqadmin.admin import Admin, MqadminCommand
from rmq.mqadmin.configuration_text import print_configurations
from rmq.mqadmin.java.command_line import CommandLine
from rmq.mqadmin.java.options import options_of, value


async def _get(admin: Admin, _: CommandLine) -> None:
    await print_configurations(admin, admin.settings.namesrv, RequestCode.GET_NAMESRV_CONFIG)


async def _update(admin: Admin, line: CommandLine) -> None:
    key, text = line.needed("k"), line.needed("v")
    await admin.at_each(admin.settings.namesrv, update_namesrv_config({key: text}))
    given = f"[{', '.join(admin.settings.namesrv)}]" if line.has("n") else ""
    admin.printf("update name server config success!%s%n%s : %s%n", given, key, text)


GET_NAMESRV_CONFIG: Final = MqadminCommand(options_of(), _get)
UPDATE_NAMESRV_CONFIG: Final = MqadminCommand(
    options_of(value("k", "key", "config key", required=True), value("v", "value", "config value", required=True)),
    _update,
)
